/* This file says what `auto` knows: pairs that send, turns that may still be given back, the use of links, groups of links. It
 * also finds the links of a pair that count. A part of choices.c. */
#pragma once
#include "../roster.h"
#include "../pauses.h"
#include "../plan.h"

enum { LEAST_SLOTS = 50, MOST_SLOTS = 4000, SLOTS_PER_SENDER = 10 };
static const int64_t RECENT = 1000000000;

struct activity { /* of a pair */
	bool sends;
	int64_t last;    /* its last backlog */
	uint64_t stamp;  /* of its entry in `order` */
	uint32_t owned;  /* entries of `owners` */
};

struct entry {
	uint64_t stamp;
	uint32_t pair;
};

struct owner { /* of a turn that may still be given back */
	uint64_t slot; /* 0: it is no more */
	int64_t bytes;
	uint32_t pair;
};

struct use { /* of a link: turns, bytes granted in them and given back, since the last choice */
	bool counted, contended;
	uint32_t choice, senders, group;
	int64_t turns, granted, unspent;
};

struct group { /* `Group` in library.py */
	uint32_t first, count, senders, one_link;
	int64_t delay, turns, granted, unspent;
};

struct dealt { /* pairs, as `regulate` takes them */
	uint32_t *nodes, *offsets, *destinations, count, total, node_room, offset_room, room;
};

struct choices {
	struct roster roster;
	struct pauses pauses;
	struct activity *activities;
	struct entry *order;
	struct owner *owners;
	struct map owner_of;
	struct use *uses;
	struct group *groups;
	struct dealt turns, rates;
	bool *in_turns, dirty;
	uint32_t activity_room, order_count, order_room, owner_count, owner_room, use_room, group_count, group_room, in_turns_room;
	uint32_t owned; /* of `owners`, those that are turns still */
	uint32_t contended, *parents, parent_room, *group_of, group_of_room, *members, member_room, *crossed, crossed_room;
	uint64_t stamps;
};

/* Provides for all links that have a number. */
static void provide_uses(struct choices *choices)
{
	uint32_t before = choices->use_room;
	GROW(choices->uses, choices->use_room, choices->roster.link_count);
	for (uint32_t at = before; at < choices->use_room; at++)
		choices->uses[at].choice = NONE;
}

/* The contended links of a pair's path; all of its links while none is known to be contended. Valid until the next call. */
static uint32_t cross(struct choices *choices, uint32_t at, const uint32_t **found)
{
	const struct couple *pair = &choices->roster.couples[at];
	const uint32_t *links = links_of(&choices->roster, at);
	uint32_t count = 0;
	provide_uses(choices);
	GROW(choices->crossed, choices->crossed_room, pair->links);
	for (uint32_t one = 0; one < pair->links; one++)
		if (!choices->contended || choices->uses[links[one]].contended)
			choices->crossed[count++] = links[one];
	*found = choices->crossed;
	return count;
}
