/* What the schedule knows: nodes, pairs, resources, bookings. The words are those of controller/policies/ (pairs, ledger). */
#pragma once
#include "../plan.h"
#include "../weights.h"
#include <stdbool.h>

typedef unsigned __int128 wide; /* products of rate, time and fraction */

/* A place in a line: less is served first. It is void when its pair has another stamp, or no place. */
struct entry {
	uint64_t last, host_last, number;
	uint32_t pair, stamp;
};

static inline bool entry_before(const struct entry *a, const struct entry *b)
{
	if (a->last != b->last)
		return a->last < b->last;
	if (a->host_last != b->host_last)
		return a->host_last < b->host_last;
	return a->number < b->number;
}
#define ENTRY_BEFORE(a, b) entry_before(&(a), &(b))
HEAP(entries, struct entry, ENTRY_BEFORE)

enum { URGENT, ORDINARY };

/* The resource where pairs wait that have just begun to, had a slot, or have another path: it has room for all. */
enum { NEW };

/* The pairs that wait at a resource and need the same of it. While its first is to be tried that pair and its stamp are kept. */
struct line {
	struct entries heap;
	int64_t need;
	uint32_t resource, next, of;
	uint32_t first, first_stamp; /* first NONE: nobody in it is to be tried now */
};

/* A booking as a resource knows it. It is over when the booking has another stamp. */
struct span {
	uint32_t booking, stamp;
};

/* From this instant on, until the next point, so much is booked; and so much ends there whose end was foreseen. */
struct point {
	int64_t at, load;
	uint32_t releases;
};

struct resource {
	/* what an attempt reads */
	int64_t capacity, reserved, settled;
	struct point *points;                        /* in the order of their instants */
	uint32_t point_count, lines;
	bool freed, early, recharged; /* early: freed before its time; recharged: its capacity is another than a moment ago */
	/* what a booking reads */
	struct span *spans; /* in the order in which they were booked; those that are over are swept out now and then */
	uint32_t count, room, point_room;
	uint64_t asked; /* the last round in which it was seen who waits longest */
} __attribute__((aligned(LINE)));

struct node {
	uint32_t id, resource;
	uint64_t last, left_at; /* left_at: `last` when it left, from which its pairs go on if it comes back */
	int64_t delay;
	uint64_t carry;
	uint32_t waiting, from, to; /* lists: pairs that wait, all of its pairs, all pairs towards it */
	uint32_t before, after;     /* in the order in which nodes had a backlog first, while `heard` */
	bool heard, told, altered;            /* told, altered: while regulated pairs are taken; altered: it has others now */
	uint32_t *regulated, regulated_count; /* sorted; a part of `core.regulated` */
};

struct pair {
	/* what an attempt reads */
	int64_t need, full, length, turn;
	uint64_t last, granted, number; /* number 0: never wanted */
	uint64_t entry_last, entry_host_last; /* of its place in a line, while it is `entered` */
	uint32_t node, booking, stamp, links, line;
	bool waiting, regulated, wanted, placed, entered, hastened;
	uint32_t passed_over;
	uint64_t eldest; /* the last round in which it was who waited longest */
	/* what a grant reads */
	uint64_t before_last, before_host;
	int64_t deadline, hurried, burst, used, packet_ns; /* hurried: how long it had slots by its deadlines since its last one in the order */
	int64_t rate; /* its node's; 0: it has no place */
	int64_t newest_length, newest_bytes;
	uint64_t newest; /* 0: none */
	int64_t amount_length, amount_reserved, amount_packets;
	uint64_t amount_rest;
	bool amount_rate; /* a slot of that length and rate is bounded by its rate */
	/* what events read */
	int64_t gone; /* -1: never */
	uint64_t mark;
	uint32_t destination;
	uint32_t waiting_before, waiting_after, from_before, from_after, to_before, to_after;
} __attribute__((aligned(LINE)));

struct booking {
	uint64_t number;
	int64_t start, end, amount, bytes, rate;
	uint64_t seen;
	uint32_t pair, before, after, stamp; /* stamp: odd while it is booked */
	bool released;
} __attribute__((aligned(LINE)));

struct due {
	int64_t at;
	uint64_t number;
	uint32_t booking;
};
#define DUE_BEFORE(a, b) ((a).at != (b).at ? (a).at < (b).at : (a).number < (b).number)
HEAP(dues, struct due, DUE_BEFORE)

struct eldest {
	uint64_t number;
	uint32_t pair;
};

struct attempt {
	struct entry entry;
	uint32_t of, line;
};
#define ATTEMPT_BEFORE(a, b) ((a).of != (b).of ? (a).of < (b).of : entry_before(&(a).entry, &(b).entry))
HEAP(attempts, struct attempt, ATTEMPT_BEFORE)

struct core {
	/* terms */
	int64_t slice, minimum_active, headroom_ppm, minimum_ppm, burst_bytes, packet_bytes;
	uint32_t patience, at_once; /* at_once: slots after which a plan stops, as after ATTEMPTS_AT_ONCE */
	/* the fabric and who sends */
	struct node *nodes;
	struct pair *pairs;
	struct resource *resources;
	struct line *lines;
	uint32_t node_count, node_room, pair_count, pair_room, resource_count, resource_room, line_count, line_room;
	uint32_t free_pairs, free_lines, *links, links_most, links_room; /* links_most of every pair */
	struct map node_of, pair_of;
	struct weights weights;
	uint32_t *regulated, first_heard, last_heard;
	uint64_t numbers;
	bool network, rewiring;
	uint32_t *unplaced, unplaced_count, unplaced_room;
	/* slots */
	struct booking *bookings;
	uint32_t booking_count, booking_room, free_bookings, first_slot, last_slot;
	struct dues ends, running;
	struct due *due; /* whose turn it is now */
	uint32_t due_room;
	uint64_t last_number, turns;
	uint32_t looked; /* the pair at which `core_forget_idle` goes on */
	int64_t now;
	/* what is to be tried, and what came of it */
	uint32_t tries, left; /* attempts, and grants, that are left in this plan */
	uint32_t *freed, freed_count, freed_room;
	/* whom a selection that is not over tries next, and its instant; those who waited longest for what was freed in a round, from when
	 * it began, and the first new pair that got a slot */
	struct attempts attempts;
	int64_t instant, begun;
	struct eldest *oldest;
	uint32_t oldest_done, oldest_count, oldest_room;
	struct entry served; /* pair NONE: there is none */
	struct dues ahead;
	uint64_t round, forwarding, marks;
	uint32_t *granted, granted_count, granted_room;
	uint64_t *fresh; /* pairs that are wanted now, by destination */
	uint32_t *gone, fresh_room, gone_count, gone_room;
	struct slot *grants, *revokes, *sorted;
	uint32_t grant_room, revoke_count, revoke_room, sorted_room;
};
