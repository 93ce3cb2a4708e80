/* The fabric of the steps policy: links, places of flows, and of nodes. A part of steps.c. */
#pragma once
#include "events.h"

uint32_t steps_link(struct steps *core, int64_t capacity);

/* Keeps which flows are queued, in their order: first those that are awake. */
static void keep_turns(struct steps *core)
{
	core->turns.count = 0;
	for (uint32_t one = 0; one < core->queue.count; one++)
		if (core->queue.items[one].flow != NONE)
			add(&core->turns, core->queue.items[one].flow);
	for (uint32_t one = 0; one < core->crowded.count; one++) {
		const struct park *park = &core->parks[core->crowded.items[one]];
		for (uint32_t other = 0; other < core->crowds[core->crowded.items[one]].parked; other++)
			add(&core->turns, park->flows[park->first + other]);
	}
}

/* Queues them again. A flow that was forgotten meanwhile may be another one now, whose turn begins then. */
static void queue_again(struct steps *core)
{
	for (uint32_t one = 0; one < core->turns.count; one++) {
		uint32_t at = core->turns.items[one];
		update_wanted(core, at);
		if (!is_wanted(core, at) || core->flows[at].queued)
			continue;
		if (core->flows[at].credit < 1)
			enter(core, at);
		else
			enter_again(core, at);
		loosen(core, at);
	}
}

/* No flow is queued, and none needs anything, until `steps_settle`; until then plans grant nothing, so that who holds the lock may
 * let others have it in between. */
static void displace(struct steps *core)
{
	keep_turns(core);
	core->queue.count = core->awake_count = core->crowded.count = 0;
	core->uneven = false;
	core->rewiring = true;
	core->gone = 0;
	GROW(core->needed, core->needed_room, core->roster.couple_count);
	for (uint32_t at = 0; at < core->roster.couple_count; at++) {
		struct flow *flow = &core->flows[at];
		flow->queued = flow->awake = false;
		core->needed[at] = flow->need;
		flow->need = 0;
		update_wanted(core, at);
	}
}

/* Forgets where all nodes are, and the links between their switches. Flows keep their places. */
void steps_forget_spots(struct steps *core)
{
	core->route_count = 0;
	map_free(&core->route_of);
	if (core->spot_room)
		memset(core->spots, 0xff, core->spot_room * sizeof(*core->spots));
}

/* A new network begins: all flows are without place, and all links are new. Links and places follow, then `steps_settle`. */
void steps_rewire(struct steps *core, int64_t now)
{
	advance(core, now);
	displace(core);
	core->roster.link_count = 0;
	steps_forget_spots(core);
	roster_rewire(&core->roster);
	steps_link(core, 0); /* NOWHERE */
}

static void clear_link(struct steps *core, uint32_t link)
{
	core->open[link] = EVERY;
	core->touched[link] = 0;
	core->single[link] = false;
	core->room[link] = (struct room){core->roster.capacities[link], INT64_MAX};
	core->crowds[link] = (struct crowd){0, 0};
}

/* Some links carry more or less, where rates and paths are as before. `steps_replace` follows until it returns 0, then
 * `steps_settle`. */
void steps_recharge(struct steps *core, int64_t now, uint32_t count, const uint32_t *links, const int64_t *capacities)
{
	advance(core, now);
	displace(core);
	for (uint32_t one = 0; one < count; one++)
		core->roster.capacities[links[one]] = capacities[one];
	for (uint32_t link = 0; link < core->roster.link_count; link++)
		clear_link(core, link);
	core->replaced = 0;
}

/* Has the next flows, `most` at most, need what they do with the capacities of now; returns how many flows are left. */
uint32_t steps_replace(struct steps *core, uint32_t most)
{
	struct roster *roster = &core->roster;
	for (; core->replaced < roster->couple_count && most; core->replaced++, most--) {
		uint32_t at = core->replaced, count = core->flows[at].count;
		const struct couple *pair = &roster->couples[at];
		if (!pair->known || !pair->placed)
			continue;
		GROW(core->path, core->path_room, count + 1);
		if (count)
			memcpy(core->path, path_of(core, at), count * sizeof(*core->path));
		place(core, at, roster->members[pair->node].rate, count, core->path);
	}
	return roster->couple_count - core->replaced;
}

uint32_t steps_link(struct steps *core, int64_t capacity)
{
	uint32_t link = roster_link(&core->roster, capacity);
	GROW(core->open, core->open_room, link + 1);
	GROW(core->touched, core->touched_room, link + 1);
	GROW(core->single, core->single_room, link + 1);
	GROW(core->room, core->room_room, link + 1);
	GROW(core->left, core->left_room, link + 1);
	GROW(core->crowds, core->crowd_room, link + 1);
	GROW(core->parks, core->park_room, link + 1);
	clear_link(core, link);
	return link;
}

void steps_place(struct steps *core, uint32_t at, int64_t rate, uint32_t count, const uint32_t *links)
{
	place(core, at, rate, count, links);
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

uint32_t steps_take_unplaced(struct steps *core, uint32_t *node, uint32_t *destination)
{
	uint32_t at;
	do
		at = roster_take_unplaced(&core->roster, node, destination);
	while (at != NONE && place_by_spots(core, at));
	return at;
}

/* How many flows have no place, after those that can be placed here have one. */
uint32_t steps_unplaced(struct steps *core)
{
	struct roster *roster = &core->roster;
	uint32_t kept = 0;
	for (uint32_t one = 0; one < roster->unplaced_count; one++) {
		uint32_t at = roster->unplaced[one];
		if (!roster->couples[at].unplaced)
			continue;
		roster->couples[at].unplaced = false;
		if (place_by_spots(core, at))
			continue;
		roster->couples[at].unplaced = true;
		roster->unplaced[kept++] = at;
	}
	return roster->unplaced_count = kept;
}

uint32_t steps_pairs(const struct steps *core, uint32_t room, uint32_t *nodes, uint32_t *destinations)
{
	return roster_pairs(&core->roster, room, nodes, destinations);
}

EXPORT_PUT(steps)

/* All flows have their places: slots stay where there is room. */
void steps_settle(struct steps *core)
{
	clear(core, EVERY);
	EACH_STEP(core, bit) {
		uint32_t count;
		struct held **all = in_order(core, bit, &count, is_any, NONE);
		for (uint32_t one = 0; one < count; one++) {
			const struct held *held = all[one];
			uint32_t at = held->flow;
			if (core->flows[at].need == core->needed[at] && fitting(core, at, (bits)(1 << bit))) {
				take(core, at, (bits)(1 << bit), 1);
			} else {
				note_revoked(core, bit, held);
				core->busy[core->flows[at].node] &= (bits)~(1 << bit);
				if (core->counted) {
					core->flows[at].left = UNKNOWN;
					count_waiting(core, at, true);
				}
			}
		}
		free(all);
	}
	core->rewiring = false;
	queue_again(core);
	refresh(core);
}
