/* The events of the steps policy: what changes who waits, who may, and the fabric. A part of steps.c. */
#pragma once
#include "slots.h"

/* What the slots carry that a flow has from now on. */
static int64_t promised(struct steps *core, uint32_t at)
{
	int64_t bytes = 0, now = core->roster.now;
	if (!may_hold(core, at))
		return 0;
	EACH_SLOT(core, at, bit) {
		int64_t start = slot_at(core, core->flows[at].node, bit)->start;
		bytes += credit_of(core, at, (core->numbers[bit] + 1) * core->step_ns - (start > now ? start : now))->carried;
	}
	return bytes;
}

/* So many bytes of a flow wait, those of its slots included. Which of these a new network leaves is not known until it stands. */
static void wait_for(struct steps *core, uint32_t at, int64_t size)
{
	struct flow *flow = &core->flows[at];
	if (core->counted)
		flow->left = size < UNKNOWN && !(core->rewiring && may_hold(core, at)) ? size - promised(core, at) : UNKNOWN;
	count_waiting(core, at, flow->left > 0);
	update_wanted(core, at);
	if (flow->left > 0 && !flow->queued)
		add(&core->fresh, at);
	else if (flow->left > 0 && core->counted)
		loosen(core, at);
}

static inline void revoke_ahead(struct steps *core, uint32_t node, uint32_t bit)
{
	const struct held *held = slot_at(core, node, bit);
	if (held->start >= core->roster.now) {
		note_revoked(core, bit, held);
		drop(core, node, bit);
	}
}

static void wait_no_more(struct steps *core, uint32_t at)
{
	uint32_t node = core->roster.couples[at].node;
	count_waiting(core, at, false);
	update_wanted(core, at);
	if (!may_hold(core, at))
		return;
	EACH_SLOT(core, at, bit)
		revoke_ahead(core, node, bit);
}

static bool holds_slot(const struct steps *core, uint32_t at)
{
	if (!may_hold(core, at))
		return false;
	EACH_SLOT(core, at, bit)
		return true;
	return false;
}

/* Has what is to be known of an idle flow fetched: first its own, later what is found by that. */
static inline void prefetch_idle(const struct steps *core, uint32_t at, bool later)
{
	const struct couple *pair = &core->roster.couples[at];
	if (!later) {
		__builtin_prefetch(pair, 1);
		__builtin_prefetch(&core->flows[at], 1);
		return;
	}
	map_prefetch(&core->roster.couple_of, couple_key(core->ids[pair->node], pair->destination));
}

/* Forgets flows of which nothing is left, where the core can place them again by itself. So memory grows with what waits, and not
 * with all that ever waited. */
static void forget_idle(struct steps *core)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < core->idle.count; one++) {
		uint32_t at = core->idle.items[one];
		if (one + 2 * SOON < core->idle.count)
			prefetch_idle(core, core->idle.items[one + 2 * SOON], 0);
		if (one + SOON < core->idle.count)
			prefetch_idle(core, core->idle.items[one + SOON], 1);
		const struct couple *pair = &core->roster.couples[at];
		const struct flow *flow = &core->flows[at];
		if (!pair->known || pair->waiting || flow->queued || flow->credit != 0)
			continue;
		if (flow->loose || holds_slot(core, at))
			core->idle.items[kept++] = at;
		else if (has_spot(core, pair->node) && has_spot(core, flow->to))
			free_couple(&core->roster, at);
	}
	core->idle.count = kept;
}

/* The backlog of a node, in full. Without sizes (NULL) nothing changes for a flow that waited already. */
static void take_backlog(struct steps *core, uint32_t node, uint32_t count, const uint32_t *destinations, const int64_t *sizes)
{
	const struct roster *roster = &core->roster;
	uint64_t mark = ++core->roster.marks;
	for (uint32_t to = 0; to < count; to++) {
		uint32_t at = flow_at(core, node, destinations[to]);
		roster->couples[at].mark = mark;
		if (core->counted || !roster->couples[at].waiting)
			wait_for(core, at, sizes ? sizes[to] : UNKNOWN);
	}
	for (uint32_t at = roster->members[node].from, after; at != NONE; at = after) {
		after = roster->couples[at].from_after;
		if (roster->couples[at].mark != mark)
			wait_no_more(core, at);
	}
	EACH_STEP(core, bit) {
		const struct held *held = held_of(core, node, bit);
		if (core->counted && held && core->roster.couples[held->flow].mark != mark)
			revoke_ahead(core, node, bit);
	}
}

/* Backlogs of some nodes, with their bytes if they are known (else NULL). */
void steps_sized_backlogs(struct steps *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
			  const uint32_t *destinations, const int64_t *sizes)
{
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t from = offsets[one], its = offsets[one + 1] - from;
		take_backlog(core, member_at(&core->roster, nodes[one]), its, destinations + from, sizes ? sizes + from : NULL);
	}
}

/* Deadlines are not used. */
void steps_backlogs(struct steps *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations, const int64_t *deadlines)
{
	(void)deadlines;
	steps_sized_backlogs(core, now, count, nodes, offsets, destinations, NULL);
}

/* Has what is found by an event's ids fetched. */
static inline void prefetch_event(const struct steps *core, const struct returned *event)
{
	const struct roster *roster = &core->roster;
	uint32_t node = member_find(roster, (uint32_t)event->node), to = member_find(roster, (uint32_t)event->destination);
	map_prefetch(&roster->couple_of, couple_key((uint32_t)event->node, (uint32_t)event->destination));
	if (node == NONE || to == NONE)
		return;
	__builtin_prefetch(&roster->members[node], 1);
	__builtin_prefetch(&roster->members[to], 1);
}

/* The flow of an event; NONE: it is not known. Has what the event will ask for fetched. */
static inline uint32_t find_event(const struct steps *core, const struct returned *event)
{
	const struct roster *roster = &core->roster;
	uint32_t id = (uint32_t)event->node, destination = (uint32_t)event->destination, at = couple_find(roster, id, destination);
	if (at != NONE) {
		__builtin_prefetch(&core->flows[at], 1);
		__builtin_prefetch(&roster->couples[at], 1);
		return at;
	}
	uint32_t node = member_find(roster, id), to = member_find(roster, destination);
	if (node == NONE || to == NONE)
		return NONE;
	const struct member *member = &roster->members[node], *other = &roster->members[to];
	if (member->from != NONE)
		__builtin_prefetch(&roster->couples[member->from], 1);
	if (other->to != NONE)
		__builtin_prefetch(&roster->couples[other->to], 1);
	return NONE;
}

/* A slot of a flow is given back: the rest of it is free from now on. */
static inline void give_back(struct steps *core, uint32_t at, int64_t number)
{
	uint32_t node = core->flows[at].node;
	for (uint32_t steps = core->flows[at].steps & core->planned; steps; steps &= steps - 1) {
		uint32_t bit = (uint32_t)__builtin_ctz(steps);
		const struct held *held = held_of(core, node, bit);
		if (held && held->flow == at && held->number == number)
			drop(core, node, bit);
	}
}

static inline void take_event(struct steps *core, const struct returned *event, uint32_t at)
{
	uint32_t id = (uint32_t)event->node, destination = (uint32_t)event->destination;
	if (at == NONE) /* unless an event since it was looked for has made it known */
		at = couple_find(&core->roster, id, destination);
	if (at != NONE && event->slot)
		give_back(core, at, event->slot);
	if (event->backlog_bytes > 0)
		wait_for(core, at != NONE ? at : new_flow(core, member_at(&core->roster, id), destination), event->backlog_bytes);
	else if (at != NONE)
		wait_no_more(core, at);
}

void steps_yields(struct steps *core, int64_t now, uint32_t count, const struct returned *all)
{
	uint32_t found[SOON];
	advance(core, now);
	for (uint32_t one = 0; one < SOON && one < count; one++)
		found[one] = find_event(core, &all[one]);
	for (uint32_t one = 0, next = 0; one < count; one++, next = next + 1 < SOON ? next + 1 : 0) {
		uint32_t at = found[next];
		if (one + 2 * SOON < count)
			prefetch_event(core, &all[one + 2 * SOON]);
		if (one + SOON < count)
			found[next] = find_event(core, &all[one + SOON]);
		take_event(core, &all[one], at);
	}
}

static int by_number(const void *a, const void *b)
{
	const struct held *one = *(struct held *const *)a, *other = *(struct held *const *)b;
	return (one->number > other->number) - (one->number < other->number);
}

/* Those slots of a step that are chosen by `is`, by their numbers; the caller frees them. */
static struct held **in_order(const struct steps *core, uint32_t bit, uint32_t *count,
			      bool (*is)(const struct steps *, const struct flow *, uint32_t), uint32_t given)
{
	struct held **all = malloc((core->busy_room + 1) * sizeof(*all));
	if (!all)
		abort();
	*count = 0;
	for (uint32_t node = 0; node < core->busy_room; node++)
		if (held_of(core, node, bit) && is(core, &core->flows[slot_at(core, node, bit)->flow], given))
			all[(*count)++] = slot_at(core, node, bit);
	qsort(all, *count, sizeof(*all), by_number);
	return all;
}

static bool is_any(const struct steps *core, const struct flow *flow, uint32_t given)
{
	(void)core, (void)flow, (void)given;
	return true;
}

static bool is_of_node(const struct steps *core, const struct flow *flow, uint32_t node)
{
	(void)core;
	return flow->node == node || flow->to == node;
}

static bool is_not_regulated(const struct steps *core, const struct flow *flow, uint32_t given)
{
	(void)given;
	return !core->roster.couples[flow - core->flows].regulated;
}

/* Revokes the slots that are chosen. */
static void revoke(struct steps *core, bool (*is)(const struct steps *, const struct flow *, uint32_t), uint32_t given)
{
	EACH_STEP(core, bit) {
		uint32_t count;
		struct held **all = in_order(core, bit, &count, is, given);
		for (uint32_t one = 0; one < count; one++) {
			note_revoked(core, bit, all[one]);
			drop(core, core->flows[all[one]->flow].node, bit);
		}
		free(all);
	}
}

static const struct roster *sorted_roster; /* qsort has no argument for it */

static int by_pair(const void *a, const void *b)
{
	const struct roster *roster = sorted_roster;
	const struct couple *one = &roster->couples[*(const uint32_t *)a], *other = &roster->couples[*(const uint32_t *)b];
	uint64_t first = couple_key(roster->members[one->node].id, one->destination);
	uint64_t second = couple_key(roster->members[other->node].id, other->destination);
	return (first > second) - (first < second);
}

/* Has a flow queued if it is wanted. */
static inline void look_at(struct steps *core, uint32_t at)
{
	update_wanted(core, at);
	if (is_wanted(core, at) && !core->flows[at].queued)
		add(&core->fresh, at);
}

static void sort_fresh(struct steps *core)
{
	sorted_roster = &core->roster;
	if (core->fresh.count)
		qsort(core->fresh.items, core->fresh.count, sizeof(uint32_t), by_pair);
}

/* Has all flows that are wanted queued, by node and destination. */
static void refresh(struct steps *core)
{
	core->fresh.count = 0;
	for (uint32_t at = 0; at < core->roster.couple_count; at++)
		look_at(core, at);
	sort_fresh(core);
}

void steps_regulate(struct steps *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations)
{
	struct roster *roster = &core->roster;
	bool ends = false;
	advance(core, now);
	roster_regulate(roster, count, nodes, offsets, destinations);
	for (uint32_t one = 0; one < roster->changed_count; one++) {
		look_at(core, roster->changed[one]);
		ends |= !roster->couples[roster->changed[one]].regulated;
	}
	sort_fresh(core);
	if (ends)
		revoke(core, is_not_regulated, NONE);
}

static void forget(struct steps *core, uint32_t at)
{
	count_waiting(core, at, false);
	if (core->flows[at].awake)
		leave(core, at);
	free_couple(&core->roster, at);
	update_wanted(core, at);
}

void steps_left(struct steps *core, int64_t now, uint32_t id)
{
	struct roster *roster = &core->roster;
	advance(core, now);
	uint32_t node = member_find(roster, id);
	if (node == NONE)
		return;
	revoke(core, is_of_node, node);
	for (uint32_t at = 0; at < roster->couple_count; at++) {
		const struct couple *pair = &roster->couples[at];
		if (pair->known && (pair->node == node || pair->destination == id))
			forget(core, at);
	}
	purge_queue(core);
	purge(core, &core->loose);
	roster->members[node].delay = -1;
	if (node < core->spot_room)
		core->spots[node].switched = NONE; /* it may come back elsewhere */
	GROW(core->carries, core->carry_room, node + 1);
	core->carries[node] = 0;
}

void steps_delay(struct steps *core, uint32_t node, int64_t delay)
{
	uint32_t at = member_at(&core->roster, node);
	core->roster.members[at].delay = delay;
	if (delay > core->longest_delay)
		core->longest_delay = delay;
}

/* The weight of a pair; NONE stands for any node. */
void steps_weight(struct steps *core, uint32_t node, uint32_t destination, double weight)
{
	weigh(&core->weights, node, destination, weight);
	core->least_weight = least_weight(&core->weights);
}
