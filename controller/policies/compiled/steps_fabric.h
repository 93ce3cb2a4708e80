/* The fabric of the steps policy: links, places of flows, and of nodes. A part of steps.c. */
#pragma once
#include "steps_events.h"

/* A new network begins: all flows are without place, and all links are new. Links and places follow, then `steps_settle`. */
void steps_rewire(struct steps *core, int64_t now)
{
	advance(core, now);
	core->queue.count = core->awake_count = core->crowded.count = 0;
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
	for (uint32_t node = 0; node < core->sender_room; node++)
		core->senders[node] = IDLE;
	for (uint32_t node = 0; node < core->waiting_room; node++)
		for (uint32_t one = 0; one < core->waiting[node].out_count; one++)
			core->waiting[node].out[one].last = 0;
	roster_rewire(&core->roster);
}

uint32_t steps_link(struct steps *core, int64_t capacity)
{
	uint32_t link = roster_link(&core->roster, capacity);
	GROW(core->room, core->room_room, link + 1);
	GROW(core->parks, core->park_room, link + 1);
	core->room[link] = capacity;
	GROW(core->crowds, core->crowd_room, link + 1);
	core->crowds[link] = (struct crowd){0, 0};
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
			core->room[links[0]] = 1;
			EACH_STEP(core, step)
				step->left[links[0]] = 1;
		}
	}
	EACH_STEP(core, step)
		provide(core, step);
	update_wanted(core, at);
	if (roster->couples[at].waiting)
		waiter_of(core, at)->last = last_link(core, at);
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
