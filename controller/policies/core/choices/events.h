/* This file takes the events: hosts tell backlogs and what they sent, give turns back and leave; turns are granted; other pairs
 * are regulated; other links are contended; the network changes. A part of choices.c. */
#pragma once
#include "state.h"

static uint32_t pair_at(struct choices *choices, uint32_t node, uint32_t destination)
{
	uint32_t before = couple_find(&choices->roster, choices->roster.members[node].id, destination);
	uint32_t at = couple_at(&choices->roster, node, destination);
	GROW(choices->activities, choices->activity_room, choices->roster.couple_room);
	if (before == NONE)
		choices->activities[at] = (struct activity){.last = 0};
	want_place(&choices->roster, at);
	return at;
}

static void sends(struct choices *choices, uint32_t at)
{
	struct activity *activity = &choices->activities[at];
	if (!activity->sends) {
		choices->dirty = activity->sends = true;
		activity->stamp = ++choices->stamps;
		GROW(choices->order, choices->order_room, choices->order_count + 1);
		choices->order[choices->order_count++] = (struct entry){activity->stamp, at};
	}
	activity->last = choices->roster.now;
}

void choices_backlogs(struct choices *choices, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		      const uint32_t *destinations, const int64_t *deadlines)
{
	(void)deadlines;
	struct roster *roster = &choices->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = member_at(roster, nodes[one]);
		uint64_t mark = ++roster->marks;
		for (uint32_t at = offsets[one]; at < offsets[one + 1]; at++) {
			uint32_t pair = pair_at(choices, node, destinations[at]); /* which may move all pairs */
			roster->couples[pair].mark = mark;
			roster->couples[pair].waiting = true;
			sends(choices, pair);
		}
		for (uint32_t at = roster->members[node].from; at != NONE; at = roster->couples[at].from_after)
			roster->couples[at].waiting &= roster->couples[at].mark == mark;
	}
}

static void disown(struct choices *choices, uint32_t at)
{
	struct owner *owner = &choices->owners[at];
	choices->activities[owner->pair].owned--;
	choices->owned--;
	map_remove(&choices->owner_of, owner->slot);
	owner->slot = 0;
}

void choices_yields(struct choices *choices, int64_t now, uint32_t count, const struct returned *all)
{
	struct roster *roster = &choices->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		const struct returned *returned = &all[one];
		uint32_t node = member_at(roster, (uint32_t)returned->node), destination = (uint32_t)returned->destination;
		uint32_t owner = map_get(&choices->owner_of, (uint64_t)returned->slot);
		const struct couple *pair = owner == NONE ? NULL : &roster->couples[choices->owners[owner].pair];
		if (pair && pair->node == node && pair->destination == destination) {
			const uint32_t *links;
			uint32_t crossed = cross(choices, choices->owners[owner].pair, &links);
			int64_t most = choices->owners[owner].bytes;
			for (uint32_t at = 0; at < crossed; at++)
				if (choices->uses[links[at]].counted)
					choices->uses[links[at]].unspent += returned->unspent_bytes < most ? returned->unspent_bytes : most;
			disown(choices, owner);
		}
		if (returned->backlog_bytes > 0) {
			uint32_t at = pair_at(choices, node, destination);
			roster->couples[at].waiting = true;
			sends(choices, at);
		} else {
			uint32_t at = couple_find(roster, roster->members[node].id, destination);
			if (at != NONE)
				roster->couples[at].waiting = false;
		}
	}
}

void choices_sent(struct choices *choices, int64_t now, uint32_t node, uint32_t count, const uint32_t *destinations,
		  const int64_t *rates)
{
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = couple_find(&choices->roster, node, destinations[one]);
		if (at != NONE && rates[one] && choices->activities[at].sends)
			choices->activities[at].last = now;
	}
}

void choices_delay(struct choices *choices, uint32_t node, int64_t delay)
{
	uint32_t at = member_at(&choices->roster, node); /* which may move all members */
	choices->roster.members[at].delay = delay;
}

void choices_regulate(struct choices *choices, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		      const uint32_t *destinations)
{
	choices->roster.now = now;
	roster_regulate(&choices->roster, count, nodes, offsets, destinations);
	choices->dirty = true;
}

void choices_left(struct choices *choices, int64_t now, uint32_t id)
{
	struct roster *roster = &choices->roster;
	uint32_t node = member_find(roster, id);
	roster->now = now;
	if (node == NONE)
		return;
	roster->members[node].delay = -1;
	for (uint32_t one = 0; one < choices->owner_count; one++) {
		const struct owner *owner = &choices->owners[one];
		if (owner->slot && (roster->couples[owner->pair].node == node || roster->couples[owner->pair].destination == id))
			disown(choices, one);
	}
	while (roster->members[node].from != NONE) {
		choices->activities[roster->members[node].from].sends = false;
		forget_couple(roster, roster->members[node].from);
	}
	while (roster->members[node].to != NONE) {
		choices->activities[roster->members[node].to].sends = false;
		forget_couple(roster, roster->members[node].to);
	}
}

/* Takes the contended links, in full, and forgets what was chosen for others. */
void choices_contend(struct choices *choices, uint32_t count, const uint32_t *links)
{
	provide_uses(choices);
	for (uint32_t at = 0; at < choices->use_room; at++)
		choices->uses[at].contended = false;
	for (uint32_t one = 0; one < count; one++)
		choices->uses[links[one]].contended = true;
	for (uint32_t at = 0; at < choices->use_room; at++)
		if (!choices->uses[at].contended)
			choices->uses[at].choice = NONE;
	choices->contended = count;
	choices->dirty = true;
}

/* A new network begins. Links keep their numbers, for they keep their names. */
void choices_rewire(struct choices *choices, int64_t now)
{
	choices->roster.now = now;
	roster_rewire(&choices->roster);
	choices->dirty = true;
}

/* Other capacities of links, where rates and paths are as before. */
void choices_recharge(struct choices *choices, int64_t now)
{
	choices->roster.now = now;
	choices->dirty = true;
}

EXPORT_PLACES(choices, (void)0)

/* Counts turns that were granted. */
void choices_count(struct choices *choices, uint32_t count, const struct slot *slots)
{
	for (uint32_t one = 0; one < count; one++) {
		const struct slot *slot = &slots[one];
		uint32_t at = couple_find(&choices->roster, (uint32_t)slot->node, (uint32_t)slot->destination);
		if (!slot->bytes || at == NONE || map_get(&choices->owner_of, (uint64_t)slot->slot) != NONE)
			continue;
		const uint32_t *links;
		GROW(choices->owners, choices->owner_room, choices->owner_count + 1);
		map_set(&choices->owner_of, (uint64_t)slot->slot, choices->owner_count);
		choices->owners[choices->owner_count++] = (struct owner){(uint64_t)slot->slot, slot->bytes, at};
		choices->activities[at].owned++;
		choices->owned++;
		uint32_t crossed = cross(choices, at, &links);
		for (uint32_t link = 0; link < crossed; link++) {
			struct use *use = &choices->uses[links[link]];
			if (!use->counted) {
				use->counted = true;
				use->turns = use->granted = use->unspent = 0;
			}
			if (use->turns >= MOST_SLOTS) {
				use->turns /= 2;
				use->granted /= 2;
				use->unspent /= 2;
			}
			use->turns++;
			use->granted += slot->bytes;
		}
	}
}
