/* Who waits: by node the flows there, and those for it, in the order in which they began to; and which of them are wanted. A part
 * of steps.c. */
#pragma once
#include "grid.h"

static inline void update_wanted(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	core->flows[at].wanted = pair->known && pair->waiting && pair->regulated && core->flows[at].need > 0;
}

static inline struct waiter *waiter_of(const struct steps *core, uint32_t at)
{
	struct waiter *waiter = core->waiting[core->roster.couples[at].node].out;
	while (waiter->flow != at)
		waiter++;
	return waiter;
}

/* Counts a flow among those that wait, or no longer. */
static inline void count_waiting(struct steps *core, uint32_t at, bool waiting)
{
	struct couple *pair = &core->roster.couples[at];
	if (pair->waiting == waiting)
		return;
	pair->waiting = waiting;
	struct waiting *here = &core->waiting[pair->node];
	struct flows *in = &core->waiting[core->flows[at].to].in;
	if (waiting) {
		GROW(here->out, here->out_room, here->out_count + 1);
		here->out[here->out_count++] = (struct waiter){.flow = at, .destination = pair->destination};
		add(in, at);
		return;
	}
	struct waiter *one = waiter_of(core, at);
	uint32_t *other = in->items;
	while (*other != at)
		other++;
	here->out_count--;
	in->count--;
	memmove(one, one + 1, (size_t)(here->out + here->out_count - one) * sizeof(*one));
	memmove(other, other + 1, (size_t)(in->items + in->count - other) * sizeof(*other));
}

/* Where among those that wait at a node the flow to a destination is, if it is one of the next TRIES; NONE: it is not. */
static inline uint32_t next_waiter(const struct steps *core, uint32_t node, uint32_t from, uint32_t destination)
{
	if (node >= core->waiting_room)
		return NONE;
	const struct waiting *here = &core->waiting[node];
	for (uint32_t tries = 0; tries < TRIES && tries < here->out_count; tries++, from++) {
		if (from >= here->out_count)
			from = 0;
		if (here->out[from].destination == destination)
			return from;
	}
	return NONE;
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
	GROW(core->waiting, core->waiting_room, core->held_room);
	GROW(core->carries, core->carry_room, core->held_room);
	GROW(core->ids, core->id_room, core->held_room);
	GROW(core->busy, core->busy_room, core->held_room);
	GROW(core->rows, core->row_room, core->held_room * AHEAD);
}

/* A flow that is not known yet. */
static uint32_t new_flow(struct steps *core, uint32_t node, uint32_t destination)
{
	uint32_t at = new_couple(&core->roster, node, destination);
	GROW(core->flows, core->flow_room, at + 1);
	GROW(core->sends, core->sends_room, at + 1);
	provide_nodes(core);
	uint32_t to = member_find(&core->roster, destination);
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

static void free_waiting(struct steps *core)
{
	for (uint32_t node = 0; node < core->waiting_room; node++) {
		free(core->waiting[node].out);
		free(core->waiting[node].in.items);
	}
	free(core->waiting);
}
