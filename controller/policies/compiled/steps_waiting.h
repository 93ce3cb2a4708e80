/* Who waits: by node the flows there, and those for it, in the order in which they began to; and which of them are wanted. A part
 * of steps.c. */
#pragma once
#include "grid.h"

static void update_wanted(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	bool wanted = pair->known && pair->waiting && pair->regulated && core->flows[at].need > 0;
	if (wanted == is_wanted(core, at))
		return;
	core->wanted[at >> 6] ^= (uint64_t)1 << (at & 63);
	if (core->flows[at].awake)
		core->senders[core->flows[at].node].unwanted += wanted ? -1 : 1;
}

static inline uint32_t last_link(const struct steps *core, uint32_t at)
{
	return core->flows[at].need ? path_of(core, at)[core->flows[at].count - 1] : 0;
}

static inline struct waiter *waiter_of(const struct steps *core, uint32_t at)
{
	struct waiter *waiter = core->waiting[core->roster.couples[at].node].out;
	while (waiter->flow != at)
		waiter++;
	return waiter;
}

/* Counts a flow among those that wait, or no longer. */
static void count_waiting(struct steps *core, uint32_t at, bool waiting)
{
	struct couple *pair = &core->roster.couples[at];
	if (pair->waiting == waiting)
		return;
	pair->waiting = waiting;
	struct waiting *here = &core->waiting[pair->node];
	struct flows *in = &core->waiting[map_get(&core->roster.member_of, pair->destination)].in;
	if (waiting) {
		GROW(here->out, here->out_room, here->out_count + 1);
		here->out[here->out_count++] = (struct waiter){at, pair->destination, last_link(core, at), false};
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

static const struct sender IDLE = {NONE, NONE, 0, false};

static bool place_by_spots(struct steps *core, uint32_t at);

static uint32_t flow_at(struct steps *core, uint32_t node, uint32_t destination)
{
	uint32_t at = couple_find(&core->roster, core->roster.members[node].id, destination);
	if (at != NONE)
		return at;
	at = couple_at(&core->roster, node, destination);
	GROW(core->flows, core->flow_room, at + 1);
	GROW(core->wanted, core->wanted_room, (at >> 6) + 1);
	GROW(core->sends, core->sends_room, at + 1);
	GROW(core->waiting, core->waiting_room, core->roster.member_count);
	uint32_t senders = core->sender_room;
	GROW(core->senders, core->sender_room, core->roster.member_count);
	for (; senders < core->sender_room; senders++)
		core->senders[senders] = IDLE;
	core->flows[at] = (struct flow){
		.node = node, .id = core->roster.members[node].id, .destination = destination,
	};
	update_wanted(core, at);
	if (!place_by_spots(core, at))
		want_place(&core->roster, at);
	return at;
}

static void free_waiting(struct steps *core)
{
	for (uint32_t node = 0; node < core->waiting_room; node++) {
		free(core->waiting[node].out);
		free(core->waiting[node].in.items);
	}
	free(core->waiting);
}
