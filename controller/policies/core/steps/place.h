/* Flows and the places that they have: the links that a flow crosses, and what it needs of them. A part of steps.c. */
#pragma once
#include "waiting.h"

ALWAYS_INLINE void place(struct steps *core, uint32_t at, int64_t rate, uint32_t count, const uint32_t *links)
{
	struct roster *roster = &core->roster;
	struct flow *flow = &core->flows[at];
	if (count > INSIDE)
		roster_place(roster, at, rate, count, links);
	roster->couples[at].placed = true;
	roster->members[flow->node].rate = rate;
	flow->count = (uint16_t)count;
	for (uint32_t one = 0; one < count && one < INSIDE; one++)
		flow->links[one] = links[one];
	flow->need = 0;
	if (count) {
		int64_t need, sends = need = rate < roster->capacities[links[0]] ? rate : roster->capacities[links[0]];
		for (uint32_t one = 1; one < count; one++)
			if (roster->capacities[links[one]] < need)
				need = roster->capacities[links[one]];
		flow->slow = need < sends;
		if (flow->slow)
			core->sends[at] = sends;
		core->room[links[0]] = (struct room){1, 1};
		core->single[links[0]] = true;
		flow->need = need;
		for (uint32_t one = 1; one < count && need > 0; one++)
			note_need(core, links[one], need);
	}
	update_wanted(core, at);
	if (!core->rewiring && is_wanted(core, at) && !flow->queued)
		add(&core->fresh, at); /* a plan since it began to wait has passed it over, for want of a place */
}

static inline bool has_spot(const struct steps *core, uint32_t node)
{
	return node < core->spot_room && core->spots[node].switched != NONE;
}

/* Places a flow by what is known of its nodes, if enough is. */
static bool place_by_spots(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	uint32_t to = core->flows[at].to;
	if (!has_spot(core, pair->node) || !has_spot(core, to))
		return false;
	const struct spot *one = &core->spots[pair->node], *other = &core->spots[to];
	if (one->up == other->up) /* both are at one host: no link is between them */
		return false;
	uint32_t route = map_get(&core->route_of, couple_key(one->switched, other->switched));
	if (route == NONE)
		return false;
	const uint32_t *middle = &core->routes[route + 1], count = middle[-1];
	GROW(core->path, core->path_room, count + 2);
	uint32_t *path = core->path;
	path[0] = one->up;
	for (uint32_t link = 0; link < count; link++) /* mostly none or two: a call of memcpy takes longer */
		path[link + 1] = middle[link];
	path[count + 1] = other->down;
	place(core, at, one->rate, count + 2, path);
	return true;
}

/* Room for what is known of nodes: where `held` has room for one, all have. */
static void provide_nodes(struct steps *core)
{
	if (core->roster.member_count <= core->held_room)
		return;
	GROW(core->held, core->held_room, core->roster.member_count);
	GROW(core->carries, core->carry_room, core->held_room);
	GROW(core->ids, core->id_room, core->held_room);
	GROW(core->busy, core->busy_room, core->held_room);
	GROW(core->rows, core->row_room, core->held_room * AHEAD);
}

/* A flow that is not known yet. */
static uint32_t new_flow(struct steps *core, uint32_t node, uint32_t destination)
{
	uint32_t to = member_at(&core->roster, destination), at = new_couple(&core->roster, node, to);
	GROW(core->flows, core->flow_room, at + 1);
	GROW(core->sends, core->sends_room, at + 1);
	provide_nodes(core);
	if (core->roster.free_couples != NONE)
		__builtin_prefetch(&core->flows[core->roster.free_couples], 1); /* for the next one */
	core->flows[at] = (struct flow){.node = node, .to = to, .left = UNKNOWN};
	core->ids[node] = core->roster.members[node].id;
	core->ids[to] = destination;
	if (!place_by_spots(core, at)) {
		update_wanted(core, at);
		want_place(&core->roster, at);
	}
	return at;
}

static inline uint32_t flow_at(struct steps *core, uint32_t node, uint32_t destination)
{
	uint32_t at = couple_find(&core->roster, core->roster.members[node].id, destination);
	return at != NONE ? at : new_flow(core, node, destination);
}
