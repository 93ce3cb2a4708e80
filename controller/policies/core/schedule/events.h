/* This file takes the events: hosts tell backlogs, give slots back and leave; other pairs are regulated; nodes get other
 * delays, and pairs other weights. A part of schedule.c. */
#pragma once
#include "wants.h"

/* Backlogs of some nodes, in full: nodes[i] waits for destinations[offsets[i]] and on, with so many bytes of deadlines each. */
void core_backlogs(struct core *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		   const uint32_t *destinations, const int64_t *deadlines)
{
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = node_at(core, nodes[one]);
		uint64_t mark = ++core->marks;
		bool added = false;
		core->gone_count = 0;
		for (uint32_t at = offsets[one]; at < offsets[one + 1]; at++) {
			uint32_t pair = pair_at(core, node, destinations[at]);
			core->pairs[pair].mark = mark;
			if (!core->pairs[pair].waiting) {
				begin_to_wait(core, pair);
				added = true;
			}
		}
		for (uint32_t at = core->nodes[node].waiting, after; at != NONE; at = after) {
			after = core->pairs[at].waiting_after;
			if (core->pairs[at].mark != mark)
				note_gone(core, at);
		}
		if (added || core->gone_count)
			change_backlog(core, node, core->gone_count);
		for (uint32_t at = core->nodes[node].waiting; at != NONE; at = core->pairs[at].waiting_after)
			core->pairs[at].deadline = 0;
		for (uint32_t at = offsets[one]; deadlines && at < offsets[one + 1]; at++) {
			uint32_t pair = pair_at(core, node, destinations[at]);
			core->pairs[pair].deadline = core->pairs[pair].wanted ? deadlines[at] : 0;
			hasten(core, pair);
			if (urgent(&core->pairs[pair]) && core->pairs[pair].entered && core->pairs[pair].line == NEW)
				note_freed(core, NEW, false);
		}
	}
}

static void learn_use(struct core *core, uint32_t at, const struct returned *returned)
{
	struct pair *pair = &core->pairs[at];
	struct node *node = &core->nodes[pair->node];
	if (!pair->newest || pair->newest != (uint64_t)returned->slot)
		return;
	pair->newest = 0;
	if (!pair->newest_bytes || !returned->unspent_bytes || !pair->placed) {
		pair->used = 0;
		return;
	}
	int64_t spent = most(0, pair->newest_bytes - returned->unspent_bytes), margin = MARGIN_PACKETS * pair->packet_ns;
	int64_t used = (int64_t)((wide)pair->newest_length * spent / pair->newest_bytes);
	pair->hurried = most(0, pair->hurried - (pair->newest_length - used));
	pair->length = least(pair->turn, most(shortest(pair), used + most(used / 8, margin)));
	pair->used += used;
	if (used < pair->turn / VISITS || pair->turn - pair->used < shortest(pair)) {
		pair->used = 0;
		return;
	}
	if (node->last == pair->last)
		node->last = pair->before_host;
	pair->last = pair->before_last;
	if (pair->entered && pair->line == NEW) {
		pair->entered = false;
		loosen(core, at);
	}
}

/* The booking of a slot of a pair; NONE: there is none. While a new network is put no resource has spans. */
static uint32_t booking_of(const struct core *core, uint32_t pair, uint64_t number)
{
	const struct resource *resource = &core->resources[core->nodes[core->pairs[pair].node].resource];
	if (core->rewiring) {
		uint32_t at = core->first_slot;
		while (at != NONE && !(core->bookings[at].number == number && core->bookings[at].pair == pair))
			at = core->bookings[at].after;
		return at;
	}
	for (uint32_t span = 0; span < resource->count; span++) {
		uint32_t at = resource->spans[span].booking;
		if (core->bookings[at].stamp != resource->spans[span].stamp) /* it is over */
			continue;
		if (core->bookings[at].number == number && core->bookings[at].pair == pair)
			return at;
	}
	return NONE;
}

void core_yields(struct core *core, int64_t now, uint32_t count, const struct returned *all)
{
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		const struct returned *returned = &all[one];
		uint32_t node = node_at(core, (uint32_t)returned->node), destination = (uint32_t)returned->destination;
		uint32_t at = map_get(&core->pair_of, key_of(core->nodes[node].id, destination));
		uint32_t booking = at == NONE ? NONE : booking_of(core, at, (uint64_t)returned->slot);
		if (booking != NONE)
			drop(core, booking);
		if (at != NONE)
			learn_use(core, at, returned);
		bool waits = at != NONE && core->pairs[at].waiting;
		core->gone_count = 0;
		if (returned->backlog_bytes > 0 && !waits) {
			begin_to_wait(core, pair_at(core, node, destination));
			change_backlog(core, node, false);
		} else if (returned->backlog_bytes <= 0 && waits) {
			note_gone(core, at);
			change_backlog(core, node, true);
		}
	}
}

/* Takes the regulated pairs in full, and sees which nodes have others now (`altered`). Returns whether any pair is regulated no
 * more. */
static bool take_regulated(struct core *core, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
			   const uint32_t *destinations)
{
	uint32_t all = count ? offsets[count] : 0, *before = core->regulated;
	bool ends = false;
	core->regulated = malloc((size_t)all * sizeof(*destinations) + 1);
	if (!core->regulated)
		abort();
	if (all)
		memcpy(core->regulated, destinations, all * sizeof(*destinations));
	for (uint32_t one = 0; one < count; one++)
		node_at(core, nodes[one]); /* which may move all nodes */
	for (uint32_t at = 0; at < core->node_count; at++)
		core->nodes[at].altered = core->nodes[at].regulated_count; /* unless it is told below */
	for (uint32_t one = 0; one < count; one++) {
		struct node *node = &core->nodes[node_at(core, nodes[one])];
		uint32_t *list = core->regulated + offsets[one], its = offsets[one + 1] - offsets[one];
		node->altered = its != node->regulated_count || (its && memcmp(list, node->regulated, its * sizeof(*list)));
		node->told = true;
		node->regulated = list;
		node->regulated_count = its;
	}
	for (uint32_t at = 0; at < core->node_count; at++) {
		struct node *node = &core->nodes[at];
		if (!node->told)
			node->regulated_count = 0;
		node->told = false;
		for (uint32_t pair = node->altered ? node->from : NONE; pair != NONE; pair = core->pairs[pair].from_after) {
			bool was = core->pairs[pair].regulated;
			core->pairs[pair].regulated = regulates(node, core->pairs[pair].destination);
			ends |= was && !core->pairs[pair].regulated;
		}
	}
	free(before);
	return ends;
}

/* The destinations of a node are sorted. */
void core_regulate(struct core *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		   const uint32_t *destinations)
{
	advance(core, now);
	bool ends = take_regulated(core, count, nodes, offsets, destinations);
	for (uint32_t at = ends ? core->first_slot : NONE, after; at != NONE; at = after) {
		after = core->bookings[at].after;
		if (!core->pairs[core->bookings[at].pair].regulated)
			revoke(core, at);
	}
	for (uint32_t node = core->first_heard; node != NONE; node = core->nodes[node].after)
		if (core->nodes[node].altered)
			want(core, node);
}

void core_left(struct core *core, int64_t now, uint32_t id)
{
	advance(core, now);
	uint32_t gone = map_get(&core->node_of, id);
	if (gone == NONE)
		return;
	for (uint32_t at = core->first_slot, after; at != NONE; at = after) {
		const struct pair *pair = &core->pairs[core->bookings[at].pair];
		after = core->bookings[at].after;
		if (pair->node == gone || pair->destination == id)
			revoke(core, at);
	}
	struct node *node = &core->nodes[gone];
	if (node->last > node->left_at)
		node->left_at = node->last;
	for (uint32_t list = 0; list < 2; list++)
		for (uint32_t pair; (pair = list ? node->to : node->from) != NONE; forget_pair(core, pair))
			if (core->pairs[pair].number && core->pairs[pair].last > node->left_at)
				node->left_at = core->pairs[pair].last;
	node->last = node->left_at;
	if (node->heard) {
		node->heard = false;
		if (node->before != NONE)
			core->nodes[node->before].after = node->after;
		else
			core->first_heard = node->after;
		if (node->after != NONE)
			core->nodes[node->after].before = node->before;
		else
			core->last_heard = node->before;
	}
	struct resource *resource = &core->resources[node->resource];
	resource->settled = 0;
	resource->asked = 0;
	for (uint32_t line = resource->lines; line != NONE; line = core->lines[line].next)
		core->lines[line].heap.count = 0;
	node->carry = 0;
	node->delay = 0;
}

static bool has_slot(const struct core *core, uint32_t at)
{
	const struct resource *resource = &core->resources[core->nodes[core->pairs[at].node].resource];
	for (uint32_t span = 0; span < resource->count; span++) {
		const struct booking *booking = &core->bookings[resource->spans[span].booking];
		if (booking->stamp == resource->spans[span].stamp && booking->pair == at)
			return true;
	}
	return false;
}

/* Looks at the next PAIRS_AT_ONCE pairs, and forgets those that have been idle for so long. Such a pair would be among the first
 * in the order when it waits again, as a new one is. */
void core_forget_idle(struct core *core, int64_t now, int64_t idle)
{
	for (uint32_t looks = 0; looks < PAIRS_AT_ONCE && looks < core->pair_count && !core->rewiring; looks++) {
		uint32_t at = core->looked < core->pair_count ? core->looked : 0;
		const struct pair *pair = &core->pairs[at];
		core->looked = at + 1;
		if (pair->number && !pair->waiting && !pair->wanted && pair->gone >= 0 && now - pair->gone > idle && !has_slot(core, at))
			forget_pair(core, at);
	}
}

void core_delay(struct core *core, uint32_t node, int64_t delay)
{
	uint32_t at = node_at(core, node); /* which may move all nodes */
	core->nodes[at].delay = delay;
}

/* The weight of a pair; NONE stands for any node. */
void core_weight(struct core *core, uint32_t node, uint32_t destination, double weight)
{
	weigh(&core->weights, node, destination, weight);
	for (uint32_t pair = 0; pair < core->pair_count; pair++)
		if (core->pairs[pair].number)
			measure(core, &core->pairs[pair]);
}
