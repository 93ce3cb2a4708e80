/* This file takes the events: hosts tell backlogs and what they sent, give leases back and leave; other pairs are regulated;
 * weights and the network change. A part of rates.c. */
#pragma once
#include "shares.h"

static uint32_t heard_node(struct rates *rates, uint32_t id)
{
	uint32_t at = member_at(&rates->roster, id), before = rates->row_room;
	GROW(rates->rows, rates->row_room, at + 1);
	memset(rates->rows + before, 0xff, (rates->row_room - before) * sizeof(*rates->rows));
	hear_of(&rates->roster, at);
	return at;
}

static uint32_t waiting_pair(struct rates *rates, uint32_t node, uint32_t destination)
{
	uint32_t at = couple_at(&rates->roster, node, destination);
	GROW(rates->senders, rates->sender_room, rates->roster.couple_room);
	if (!rates->roster.couples[at].waiting && !rates->senders[at].sends)
		rates->senders[at] = (struct sender){.idle = -1};
	rates->roster.couples[at].waiting = true;
	return at;
}

static void stop_waiting(struct rates *rates, uint32_t node, uint64_t mark)
{
	struct roster *roster = &rates->roster;
	for (uint32_t at = roster->members[node].from, after; at != NONE; at = after) {
		struct couple *pair = &roster->couples[at];
		after = pair->from_after;
		if (pair->mark == mark)
			continue;
		pair->waiting = false;
		tidy(rates, at);
	}
}

/* Backlogs of some nodes, in full: nodes[i] waits for destinations[offsets[i]] and on. Deadlines are ignored. */
void rates_backlogs(struct rates *rates, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations, const int64_t *deadlines)
{
	(void)deadlines;
	struct roster *roster = &rates->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = heard_node(rates, nodes[one]);
		uint64_t mark = ++roster->marks;
		for (uint32_t at = offsets[one]; at < offsets[one + 1]; at++) {
			uint32_t pair = waiting_pair(rates, node, destinations[at]); /* which may move all pairs */
			roster->couples[pair].mark = mark;
		}
		stop_waiting(rates, node, mark);
		note(rates, node);
	}
}

void rates_yields(struct rates *rates, int64_t now, uint32_t count, const struct returned *all)
{
	struct roster *roster = &rates->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		const struct returned *returned = &all[one];
		uint32_t node = heard_node(rates, (uint32_t)returned->node), destination = (uint32_t)returned->destination;
		uint32_t at = couple_find(roster, roster->members[node].id, destination);
		if (returned->backlog_bytes > 0)
			at = waiting_pair(rates, node, destination);
		else if (at != NONE)
			roster->couples[at].waiting = false;
		uint64_t lease = at != NONE ? rates->senders[at].lease : 0, slot = (uint64_t)returned->slot;
		if (lease && (lease == slot || (slot < lease && returned->backlog_bytes <= 0)))
			forget_sender(rates, at, lease != slot);
		if (at != NONE)
			tidy(rates, at);
		note(rates, node);
	}
}

static void want(struct rates *rates, uint32_t node, struct sender *sender, int64_t wants)
{
	int64_t rate = rates->roster.members[node].rate;
	if (rate < 0)
		return; /* it has no place any more */
	wants = wants > rate / LEAST_DEMAND_PART ? wants : rate / LEAST_DEMAND_PART;
	if (sender->wants < 0 || llabs(wants - sender->wants) > sender->wants / 10) {
		sender->wants = wants;
		rates->stale = true;
	}
}

/* The rates at which a node's flows sent to some destinations; those of all others are 0. */
void rates_sent(struct rates *rates, int64_t now, uint32_t id, uint32_t count, const uint32_t *destinations,
		const int64_t *sent)
{
	struct roster *roster = &rates->roster;
	uint32_t node = member_find(roster, id);
	roster->now = now;
	if (node == NONE || node >= rates->row_room)
		return;
	uint64_t mark = ++roster->marks;
	GROW(rates->scratch, rates->scratch_room, roster->couple_count);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = couple_find(roster, id, destinations[one]);
		if (at == NONE)
			continue;
		roster->couples[at].mark = mark;
		rates->scratch[at] = one;
	}
	for (uint32_t at = rates->rows[node].first; at != NONE; at = rates->senders[at].after) {
		const struct couple *pair = &roster->couples[at];
		struct sender *sender = &rates->senders[at];
		int64_t rate = pair->mark == mark ? sent[rates->scratch[at]] : 0;
		if (rate && sender->idle >= 0)
			sender->idle = now;
		if (!sender->lease || sender->end <= now)
			continue;
		bool used = (double)rate >= USED * (double)sender->rate;
		sender->pressed = pair->waiting ? sender->pressed + (sender->pressed < PRESSED) : 0;
		if (used || pair->waiting) {
			sender->unused = 0;
			if (sender->wants >= 0 && (used || sender->pressed >= PRESSED)) {
				sender->wants = -1;
				rates->stale = true;
			}
			continue;
		}
		sender->most_sent = sender->unused && sender->most_sent > rate ? sender->most_sent : rate;
		if (++sender->unused >= PATIENCE) {
			want(rates, node, sender, (int64_t)(MARGIN * (double)sender->most_sent));
			sender->unused = 0;
		}
	}
}

/* Takes the regulated pairs in full; the destinations of a node are sorted. */
void rates_regulate(struct rates *rates, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations)
{
	struct roster *roster = &rates->roster;
	roster->now = now;
	roster_regulate(roster, count, nodes, offsets, destinations);
	for (uint32_t node = roster->first_heard; node != NONE; node = roster->members[node].after)
		for (uint32_t at = roster->altered[node] == ALTERED ? rates->rows[node].first : NONE, after; at != NONE; at = after) {
			after = rates->senders[at].after;
			if (roster->couples[at].regulated)
				continue;
			forget_sender(rates, at, true);
			tidy(rates, at);
		}
	for (uint32_t node = roster->first_heard; node != NONE; node = roster->members[node].after)
		if (roster->altered[node] == ALTERED)
			note(rates, node);
}

struct leaving { /* a sender, by its place in the order of all */
	uint64_t heard, since;
	uint32_t pair;
};

static int by_order(const void *a, const void *b)
{
	const struct leaving *one = a, *other = b;
	if (one->heard != other->heard)
		return one->heard < other->heard ? -1 : 1;
	return (one->since > other->since) - (one->since < other->since);
}

void rates_left(struct rates *rates, int64_t now, uint32_t id)
{
	struct roster *roster = &rates->roster;
	uint32_t node = member_find(roster, id), count = 0, room = 0;
	roster->now = now;
	if (node == NONE)
		return;
	struct leaving *leaving = NULL;
	for (int way = 0; way < 2; way++)
		for (uint32_t at = way ? roster->members[node].to : roster->members[node].from; at != NONE;
		     at = way ? roster->couples[at].to_after : roster->couples[at].from_after) {
			const struct couple *pair = &roster->couples[at];
			GROW(leaving, room, count + 1);
			leaving[count++] = (struct leaving){roster->members[pair->node].heard, rates->senders[at].since, at};
		}
	if (count)
		qsort(leaving, count, sizeof(*leaving), by_order);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = leaving[one].pair;
		if (rates->senders[at].sends)
			forget_sender(rates, at, true);
		roster->couples[at].waiting = false;
	}
	for (uint32_t one = 0; one < count; one++)
		if (roster->couples[leaving[one].pair].known)
			forget_couple(roster, leaving[one].pair);
	array_free(leaving);
	unhear(roster, node);
}

/* The weight of a pair; NONE stands for any node. */
void rates_weight(struct rates *rates, uint32_t node, uint32_t destination, double weight)
{
	weigh(&rates->weights, node, destination, weight);
	rates->stale = true;
}

/* Leaves a share-out as it is: each rate, and what was promised, is within the old shares or the new ones. */
static void abandon(struct rates *rates)
{
	if (rates->share_out.stage == COLLECTING)
		close_ranks(rates);
	rates->share_out.stage = NOTHING_SHARED;
}

/* A new network begins: links and places follow, then `rates_settle`; until then nothing is shared out. */
void rates_rewire(struct rates *rates, int64_t now)
{
	rates->roster.now = now;
	rates->rewiring = true;
	roster_rewire(&rates->roster);
	rates->roster.link_count = 0;
	rates->stale = true;
	abandon(rates);
}

void rates_settle(struct rates *rates)
{
	rates->rewiring = false;
}

/* Other capacities of links, where rates and paths are as before. A share-out that was begun goes on. */
void rates_recharge(struct rates *rates, int64_t now, uint32_t count, const uint32_t *links, const int64_t *capacities)
{
	rates->roster.now = now;
	for (uint32_t one = 0; one < count; one++)
		rates->roster.capacities[links[one]] = capacities[one];
	rates->stale = true;
}

/* A plan may be made before the pairs that it would share out to have their places. */
EXPORT_PLACES(rates, core->stale = true)
