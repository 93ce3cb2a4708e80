/* Who waits, and who of these is wanted. The roster lists the flows that wait, and no others: by node those there, and those for
 * it, the latest first. A part of steps.c. */
#pragma once
#include "grid.h"

static inline void update_wanted(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	core->flows[at].wanted = pair->known && pair->waiting && pair->regulated && core->flows[at].need > 0;
}

/* Counts a flow among those that wait, or no longer. */
static inline void count_waiting(struct steps *core, uint32_t at, bool waiting)
{
	struct couple *pair = &core->roster.couples[at];
	if (pair->waiting == waiting)
		return;
	pair->waiting = waiting;
	if (waiting)
		list_couple(&core->roster, at, core->flows[at].to);
	else
		unlist_couple(&core->roster, at, core->flows[at].to);
}

/* Has what is listed beside a flow fetched. */
static inline void prefetch_beside(const struct steps *core, uint32_t at)
{
	const struct couple *couples = core->roster.couples, *pair = &couples[at];
	const uint32_t beside[] = {pair->from_before, pair->from_after, pair->to_before, pair->to_after};
	for (uint32_t one = 0; one < sizeof(beside) / sizeof(*beside); one++)
		if (beside[one] != NONE)
			__builtin_prefetch(&couples[beside[one]], 1);
}

static bool place_by_spots(struct steps *core, uint32_t at);

static inline bool has_spot(const struct steps *core, uint32_t node)
{
	return node < core->spot_room && core->spots[node].switched != NONE;
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
