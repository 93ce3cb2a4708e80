/* This file finds the groups of contended links that share senders, once it has forgotten what is old. Others may tell events in
 * its pauses: backlogs, turns that are granted and given back. A part of choices.c. */
#pragma once
#include "events.h"

bool choices_dirty(const struct choices *choices)
{
	return choices->dirty;
}

static void forget_senders(struct choices *choices, int64_t now)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < choices->order_count; one++) {
		did(&choices->pauses, 1);
		struct entry entry = choices->order[one];
		struct activity *activity = &choices->activities[entry.pair];
		if (!activity->sends || activity->stamp != entry.stamp)
			continue;
		activity->sends = now - activity->last < RECENT;
		if (activity->sends)
			choices->order[kept++] = entry;
	}
	choices->order_count = kept;
}

/* Forgets the turns that were given back, and the oldest of the others where there are too many. */
static void forget_turns(struct choices *choices)
{
	uint64_t most = (uint64_t)SLOTS_PER_SENDER * choices->order_count + LEAST_SLOTS;
	uint32_t kept = 0;
	for (uint32_t one = 0; one < choices->owner_count; one++) {
		did(&choices->pauses, 1);
		if (choices->owners[one].slot && choices->owned > most)
			disown(choices, one);
		if (!choices->owners[one].slot)
			continue;
		if (kept != one) {
			choices->owners[kept] = choices->owners[one];
			choices->owners[one].slot = 0;
			map_set(&choices->owner_of, choices->owners[kept].slot, kept);
		}
		kept++;
	}
	choices->owner_count = kept;
}

static void forget_pairs(struct choices *choices)
{
	for (uint32_t at = 0; at < choices->roster.couple_count; at++) {
		did(&choices->pauses, 1);
		const struct couple *pair = &choices->roster.couples[at];
		if (pair->known && !pair->waiting && !choices->activities[at].sends && !choices->activities[at].owned)
			forget_couple(&choices->roster, at);
	}
}

static uint32_t root(uint32_t *parents, uint32_t of)
{
	while (parents[of] != of)
		of = parents[of] = parents[parents[of]];
	return of;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The links that a pair crosses, if it is regulated; returns how many. */
static uint32_t regulated_links(struct choices *choices, uint32_t pair, const uint32_t **links)
{
	return choices->roster.couples[pair].regulated ? cross(choices, pair, links) : 0;
}

/* Makes each link and each member the only one of its tree. */
static void clear_groups(struct choices *choices)
{
	uint32_t link_count = choices->roster.link_count, all = link_count + choices->roster.member_count;
	GROW(choices->parents, choices->parent_room, all);
	GROW(choices->group_of, choices->group_of_room, all);
	GROW(choices->members, choices->member_room, link_count);
	for (uint32_t at = 0; at < all; at++) {
		choices->parents[at] = at;
		choices->group_of[at] = NONE;
	}
	for (uint32_t at = 0; at < link_count; at++) {
		choices->uses[at].group = NONE;
		choices->uses[at].senders = 0;
	}
	choices->group_count = 0;
}

/* Joins the trees of each sender and of the links that it crosses. */
static void join_groups(struct choices *choices, uint32_t senders)
{
	const uint32_t *links;
	const uint32_t link_count = choices->roster.link_count; /* members' trees come after; it must not change in a pause */
	for (uint32_t one = 0; one < senders; one++) {
		did(&choices->pauses, 1);
		uint32_t pair = choices->order[one].pair, node = link_count + choices->roster.couples[pair].node;
		uint32_t crossed = regulated_links(choices, pair, &links);
		for (uint32_t at = 0; at < crossed; at++)
			choices->parents[root(choices->parents, links[at])] = root(choices->parents, node);
	}
}

/* Makes a group of each tree, with the sums of its links; returns how many links are in groups, in the order in which they were
 * found. */
static uint32_t sum_groups(struct choices *choices, uint32_t senders)
{
	const struct roster *roster = &choices->roster;
	const uint32_t *links;
	uint32_t placed = 0;
	for (uint32_t one = 0; one < senders; one++) {
		did(&choices->pauses, 1);
		uint32_t pair = choices->order[one].pair, crossed = regulated_links(choices, pair, &links);
		if (!crossed)
			continue;
		uint32_t *number = &choices->group_of[root(choices->parents, links[0])];
		if (*number == NONE) {
			GROW(choices->groups, choices->group_room, choices->group_count + 1);
			choices->groups[choices->group_count] = (struct group){.one_link = 1, .delay = -1};
			*number = choices->group_count++;
		}
		struct group *group = &choices->groups[*number];
		group->one_link &= crossed == 1 || !choices->contended;
		group->delay = most(group->delay, roster->members[roster->couples[pair].node].delay);
		for (uint32_t at = 0; at < crossed; at++) {
			struct use *use = &choices->uses[links[at]];
			group->senders = (uint32_t)most(group->senders, ++use->senders);
			if (use->group != NONE)
				continue;
			use->group = *number;
			group->count++;
			choices->members[placed++] = links[at];
			if (use->counted) {
				group->turns += use->turns;
				group->granted += use->granted;
				group->unspent += use->unspent;
			}
		}
	}
	return placed;
}

/* Puts the links of each group together, in the order in which they were found. */
static void order_links(struct choices *choices, uint32_t placed)
{
	uint32_t first = 0;
	for (uint32_t one = 0; one < choices->group_count; one++) {
		choices->groups[one].first = first;
		first += choices->groups[one].count;
		choices->groups[one].count = 0;
	}
	for (uint32_t one = 0; one < placed; one++) {
		struct group *group = &choices->groups[choices->uses[choices->members[one]].group];
		choices->parents[group->first + group->count++] = choices->members[one];
	}
	if (placed)
		memcpy(choices->members, choices->parents, placed * sizeof(*choices->members));
}

/* Finds the groups of links that share senders, in the order of their first senders; *sending is how many pairs send. */
uint32_t choices_review(struct choices *choices, int64_t now, uint32_t *sending)
{
	choices->dirty = false;
	choices->roster.now = now;
	forget_senders(choices, now);
	forget_turns(choices);
	forget_pairs(choices);
	uint32_t senders = choices->order_count; /* who begins to send from now on has the next review */
	*sending = senders;
	provide_uses(choices);
	clear_groups(choices);
	join_groups(choices, senders);
	order_links(choices, sum_groups(choices, senders));
	return choices->group_count;
}

const struct group *choices_groups(const struct choices *choices)
{
	return choices->groups;
}
