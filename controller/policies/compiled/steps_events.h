/* The events of the steps policy: what changes who waits, who may, and the fabric. A part of steps.c. */
#pragma once
#include "grid.h"

static void wait_for(struct steps *core, uint32_t at)
{
	count_waiting(core, at, true);
	update_wanted(core, at);
	if (!core->flows[at].queued)
		add(&core->fresh, at);
}

static void wait_no_more(struct steps *core, uint32_t at)
{
	uint32_t node = core->roster.couples[at].node;
	count_waiting(core, at, false);
	update_wanted(core, at);
	EACH_STEP(core, step) {
		struct held *held = held_of(step, node, core->step_ns);
		if (held && held->flow == at && held->start >= core->roster.now) {
			note_revoked(core, step, held);
			drop(core, step, node);
		}
	}
}

/* Backlogs of some nodes, in full; deadlines are not used. */
void steps_backlogs(struct steps *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations, const int64_t *deadlines)
{
	struct roster *roster = &core->roster;
	(void)deadlines;
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = member_at(roster, nodes[one]);
		uint64_t mark = ++roster->marks;
		for (uint32_t to = offsets[one]; to < offsets[one + 1]; to++) {
			uint32_t at = flow_at(core, node, destinations[to]);
			roster->couples[at].mark = mark;
			wait_for(core, at);
		}
		if (node >= core->waiting_room)
			continue;
		for (uint32_t at = core->waiting[node].out, after; at != NONE; at = after) {
			after = core->waits[at].out_after;
			if (roster->couples[at].mark != mark)
				wait_no_more(core, at);
		}
	}
}

void steps_yields(struct steps *core, int64_t now, uint32_t count, const struct returned *all)
{
	struct roster *roster = &core->roster;
	advance(core, now);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = member_at(roster, (uint32_t)all[one].node), destination = (uint32_t)all[one].destination;
		uint32_t at = couple_find(roster, roster->members[node].id, destination);
		EACH_STEP(core, step) {
			struct held *held = held_of(step, node, core->step_ns);
			if (held && held->flow == at && held->number == all[one].slot)
				drop(core, step, node);
		}
		if (all[one].backlog_bytes > 0)
			wait_for(core, flow_at(core, node, destination));
		else if (at != NONE)
			wait_no_more(core, at);
	}
}

static int by_number(const void *a, const void *b)
{
	const struct held *one = *(struct held *const *)a, *other = *(struct held *const *)b;
	return (one->number > other->number) - (one->number < other->number);
}

/* The slots of a step by their numbers; the caller frees them. */
static struct held **in_order(struct step *step, int64_t step_ns, uint32_t *count)
{
	struct held **all = malloc((step->held_room + 1) * sizeof(*all));
	if (!all)
		abort();
	*count = 0;
	for (uint32_t node = 0; node < step->held_room; node++)
		if (held_of(step, node, step_ns))
			all[(*count)++] = &step->held[node];
	qsort(all, *count, sizeof(*all), by_number);
	return all;
}

/* Revokes the slots of a node, and towards it; of NONE those of flows that are not regulated. */
static void revoke(struct steps *core, uint32_t id)
{
	const struct roster *roster = &core->roster;
	EACH_STEP(core, step) {
		uint32_t count;
		struct held **all = in_order(step, core->step_ns, &count);
		for (uint32_t one = 0; one < count; one++) {
			const struct couple *pair = &roster->couples[all[one]->flow];
			if (id == NONE ? pair->regulated : pair->destination != id && roster->members[pair->node].id != id)
				continue;
			note_revoked(core, step, all[one]);
			drop(core, step, pair->node);
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

/* Has all flows that are wanted queued, by node and destination. */
static void refresh(struct steps *core)
{
	core->fresh.count = 0;
	for (uint32_t at = 0; at < core->roster.couple_count; at++) {
		update_wanted(core, at);
		if (is_wanted(core, at) && !core->flows[at].queued)
			add(&core->fresh, at);
	}
	sorted_roster = &core->roster;
	if (core->fresh.count)
		qsort(core->fresh.items, core->fresh.count, sizeof(uint32_t), by_pair);
}

void steps_regulate(struct steps *core, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations)
{
	advance(core, now);
	roster_regulate(&core->roster, count, nodes, offsets, destinations);
	refresh(core);
	revoke(core, NONE);
}

/* Takes the flows that are not known any more out of a list of them. */
static void purge(const struct steps *core, struct flows *flows)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < flows->count; one++)
		if (core->roster.couples[flows->items[one]].known)
			flows->items[kept++] = flows->items[one];
	flows->count = kept;
}

static void forget(struct steps *core, uint32_t at)
{
	count_waiting(core, at, false);
	if (core->flows[at].awake)
		leave(core, at);
	forget_couple(&core->roster, at);
	update_wanted(core, at);
}

void steps_left(struct steps *core, int64_t now, uint32_t id)
{
	struct roster *roster = &core->roster;
	advance(core, now);
	uint32_t node = map_get(&roster->member_of, id), kept = 0;
	if (node == NONE)
		return;
	revoke(core, id);
	while (roster->members[node].from != NONE)
		forget(core, roster->members[node].from);
	while (roster->members[node].to != NONE)
		forget(core, roster->members[node].to);
	for (uint32_t one = 0; one < core->queue.count; one++)
		if (roster->couples[core->queue.items[one].flow].known)
			core->queue.items[kept++] = core->queue.items[one];
	core->queue.count = kept;
	kept = 0;
	for (uint32_t one = 0; one < core->crowded.count; one++) {
		struct park *park = &core->parks[core->crowded.items[one]];
		uint32_t *next = &park->first;
		park->last = NONE;
		for (uint32_t at = park->first; at != NONE; at = core->flows[at].next)
			if (roster->couples[at].known) {
				*next = park->last = at;
				next = &core->flows[at].next;
			}
		*next = NONE;
		if (park->first != NONE)
			core->crowded.items[kept++] = core->crowded.items[one];
	}
	core->crowded.count = kept;
	purge(core, &core->loose);
	roster->members[node].delay = -1;
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

/* The first flow from an index on, in any order; NONE: there is none. */
uint32_t steps_known(const struct steps *core, uint32_t at, uint32_t *node, uint32_t *destination)
{
	for (; at < core->roster.couple_count; at++)
		if (core->roster.couples[at].known) {
			*node = core->roster.members[core->roster.couples[at].node].id;
			*destination = core->roster.couples[at].destination;
			return at;
		}
	return NONE;
}

/* -- the fabric ----------------------------------------------------------------------------------------------------------- */

/* A new network begins: all flows are without place, and all links are new. Links and places follow, then `steps_settle`. */
void steps_rewire(struct steps *core, int64_t now)
{
	advance(core, now);
	core->queue.count = core->crowded.count = 0;
	core->roster.link_count = core->route_count = 0;
	map_free(&core->route_of);
	if (core->spot_room)
		memset(core->spots, 0xff, core->spot_room * sizeof(*core->spots));
	for (uint32_t at = 0; at < core->roster.couple_count; at++) {
		struct flow *flow = &core->flows[at];
		flow->queued = flow->awake = false;
		flow->need = 0;
		update_wanted(core, at);
	}
	roster_rewire(&core->roster);
}

uint32_t steps_link(struct steps *core, int64_t capacity)
{
	uint32_t link = roster_link(&core->roster, capacity);
	GROW(core->room, core->room_room, link + 1);
	GROW(core->parks, core->park_room, link + 1);
	core->room[link] = capacity;
	core->parks[link] = (struct park){0, capacity, NONE, NONE};
	EACH_STEP(core, step) {
		provide(core, step);
		step->left[link] = capacity;
	}
	return link;
}

void steps_place(struct steps *core, uint32_t at, int64_t rate, uint32_t count, const uint32_t *links)
{
	struct roster *roster = &core->roster;
	struct flow *flow = &core->flows[at];
	roster_place(roster, at, rate, count, links);
	GROW(core->carries, core->carry_room, roster->member_count);
	flow->need = 0;
	flow->count = (uint16_t)count;
	if (count && count <= INSIDE)
		memcpy(flow->links, links, count * sizeof(*links));
	if (count) {
		flow->need = rate < roster->capacities[links[0]] ? rate : roster->capacities[links[0]];
		core->sends[at] = flow->need;
		for (uint32_t one = 1; one < count; one++)
			if (roster->capacities[links[one]] < flow->need)
				flow->need = roster->capacities[links[one]];
		flow->slow = flow->need < core->sends[at];
		if (core->room[links[0]] != 1) {
			core->room[links[0]] = core->parks[links[0]].room = 1;
			EACH_STEP(core, step)
				step->left[links[0]] = 1;
		}
	}
	EACH_STEP(core, step)
		provide(core, step);
	update_wanted(core, at);
}

/* Tells where a node is. */
void steps_spot(struct steps *core, uint32_t node, uint32_t switched, uint32_t up, uint32_t down, int64_t rate)
{
	uint32_t at = member_at(&core->roster, node), before = core->spot_room;
	GROW(core->spots, core->spot_room, at + 1);
	if (core->spot_room > before)
		memset(core->spots + before, 0xff, (core->spot_room - before) * sizeof(*core->spots));
	core->spots[at] = (struct spot){switched, up, down, rate};
}

/* Tells the links between two switches. */
void steps_route(struct steps *core, uint32_t from, uint32_t to, uint32_t count, const uint32_t *links)
{
	GROW(core->routes, core->route_room, core->route_count + count + 1);
	map_set(&core->route_of, couple_key(from, to), core->route_count);
	core->routes[core->route_count++] = count;
	if (count)
		memcpy(core->routes + core->route_count, links, count * sizeof(*links));
	core->route_count += count;
}

/* Places a flow by what is known of its nodes, if enough is. */
static bool place_by_spots(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	uint32_t to = map_get(&core->roster.member_of, pair->destination);
	if (pair->node >= core->spot_room || to >= core->spot_room)
		return false;
	const struct spot *one = &core->spots[pair->node], *other = &core->spots[to];
	if (one->switched == NONE || other->switched == NONE)
		return false;
	uint32_t route = map_get(&core->route_of, couple_key(one->switched, other->switched));
	if (route == NONE)
		return false;
	uint32_t count = core->routes[route];
	GROW(core->path, core->path_room, count + 2);
	core->path[0] = one->up;
	memcpy(core->path + 1, core->routes + route + 1, count * sizeof(*core->path));
	core->path[count + 1] = other->down;
	steps_place(core, at, one->rate, count + 2, core->path);
	return true;
}

uint32_t steps_take_unplaced(struct steps *core, uint32_t *node, uint32_t *destination)
{
	uint32_t at;
	do
		at = roster_take_unplaced(&core->roster, node, destination);
	while (at != NONE && place_by_spots(core, at));
	return at;
}

/* All flows have their places: slots stay where there is room. */
void steps_settle(struct steps *core)
{
	EACH_STEP(core, step) {
		uint32_t count;
		empty(core, step);
		struct held **all = in_order(step, core->step_ns, &count);
		for (uint32_t one = 0; one < count; one++) {
			struct held *held = all[one];
			if (core->flows[held->flow].need == held->reserved && fits(core, step, held->flow)) {
				take(core, step, held->flow, 1);
			} else {
				note_revoked(core, step, held);
				held->number = 0;
			}
		}
		free(all);
	}
	refresh(core);
}

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct steps *steps_new(int64_t step_ns, int64_t headroom_ppm, int64_t burst_bytes, int64_t packet_bytes)
{
	struct steps *core = calloc(1, sizeof(*core));
	if (!core)
		abort();
	roster_begin(&core->roster);
	core->step_ns = step_ns;
	core->headroom_ppm = headroom_ppm;
	core->burst_bytes = burst_bytes;
	core->packet_bytes = packet_bytes;
	core->least_weight = 1;
	for (int at = 0; at < AHEAD; at++)
		core->steps[at].number = -1;
	return core;
}

void steps_free(struct steps *core)
{
	roster_end(&core->roster);
	weights_free(&core->weights);
	map_free(&core->route_of);
	for (int at = 0; at < AHEAD; at++) {
		free(core->steps[at].left);
		free(core->steps[at].held);
	}
	void *arrays[] = {
		core->flows, core->sends, core->waits, core->waiting, core->wanted, core->room, core->parks, core->carries, core->queue.items, core->served.items,
		core->crowded.items, core->loose.items, core->fresh.items, core->chosen, core->owners, core->grants, core->revokes,
		core->spots, core->routes, core->path,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		free(arrays[at]);
	free(core);
}
