/* Slots: what is told of a step's flows, and what becomes of it. A part of steps.c. */
#pragma once
#include "match.h"

static inline struct held *held_of(const struct steps *core, uint32_t node, uint32_t bit)
{
	return node < core->busy_room && core->busy[node] >> bit & 1 ? slot_at(core, node, bit) : NULL;
}

/* Whether a flow may have a slot: that it has none costs no look at the steps. While steps are matched these are not counted. */
static inline bool may_hold(const struct steps *core, uint32_t at)
{
	return core->flows[at].steps & core->planned;
}

/* The bits of the steps in which a flow has a slot, in their order. */
#define EACH_SLOT(core, at, bit)                                                                                        \
	EACH_STEP(core, bit)                                                                                            \
		if ((core)->flows[at].steps >> bit & 1 && held_of(core, (core)->flows[at].node, bit) &&                 \
		    slot_at(core, (core)->flows[at].node, bit)->flow == (at))

static inline struct slot slot_of(const struct steps *core, uint32_t bit, const struct held *held)
{
	const struct flow *flow = &core->flows[held->flow];
	return (struct slot){
		held->number, core->ids[flow->node], core->ids[flow->to], held->start, (core->numbers[bit] + 1) * core->step_ns,
		held->amount > 0 ? held->amount : 0, held->amount < 0 ? -held->amount : 0, flow->need,
	};
}

/* The bytes of a slot, or 0 less its rate; the remainder of a credit is carried to the node's next. */
static inline int64_t amount_of(struct steps *core, uint32_t at, int64_t length)
{
	const struct flow *flow = &core->flows[at];
	const struct credit *credit = credit_of(core, at, length);
	if (credit->rate) {
		int64_t rate = (int64_t)((wide)flow->need * core->headroom_ppm / PPM);
		return rate ? -rate : -1;
	}
	uint64_t *carry = &core->carries[flow->node], packet = (uint64_t)(core->packet_bytes * BYTE);
	bool more = credit->rest >= packet - *carry;
	*carry = more ? credit->rest - (packet - *carry) : credit->rest + *carry;
	return (int64_t)(credit->packets + more) * core->packet_bytes;
}

static inline void grant(struct steps *core, uint32_t node, uint32_t bit)
{
	uint32_t at = core->rows[node].of[bit];
	const struct flow *flow = &core->flows[at];
	int64_t start = start_of(core, bit, at), end = (core->numbers[bit] + 1) * core->step_ns, amount = amount_of(core, at, end - start);
	uint64_t number = core->last_number + 1;
	if (number < (uint64_t)core->roster.now)
		number = (uint64_t)core->roster.now;
	core->last_number = number;
	*slot_at(core, node, bit) = (struct held){(int64_t)number, start, amount, at};
	core->grants[core->grant_count++] = (struct slot){
		(int64_t)number, core->ids[node], core->ids[flow->to], start, end,
		amount > 0 ? amount : 0, amount < 0 ? -amount : 0, flow->need,
	};
}

static inline void prefetch_grants(const struct steps *core, uint32_t node)
{
	for (uint8_t steps = core->busy[node] & core->window; steps; steps &= (uint8_t)(steps - 1)) {
		uint32_t bit = (uint32_t)__builtin_ctz(steps);
		__builtin_prefetch(&core->flows[core->rows[node].of[bit]]);
		__builtin_prefetch(slot_at(core, node, bit), 1);
	}
}

/* Grants what is chosen: in planned steps, then in the window, where the slots of a node lie side by side. */
static void grant_chosen(struct steps *core)
{
	const uint32_t *refilled = core->refilled.items, *picked = core->picked.items;
	GROW(core->grants, core->grant_room, core->refilled.count / 2 + core->chosen_count);
	for (uint32_t one = 0; one < core->refilled.count; one += 2)
		grant(core, refilled[one], refilled[one + 1]);
	for (uint32_t one = 0; one < core->picked.count; one++) {
		uint32_t node = picked[one];
		if (one + SOON < core->picked.count)
			__builtin_prefetch(&core->rows[picked[one + SOON]]);
		if (one + SOON / 2 < core->picked.count)
			prefetch_grants(core, picked[one + SOON / 2]);
		for (uint8_t steps = core->busy[node] & core->window; steps;) {
			uint32_t bit = soonest(steps, core->window_from);
			steps &= (uint8_t)~(1 << bit);
			grant(core, node, bit);
		}
	}
}

/* Ends a node's slot now, and has the rest of the step tried for others if there is enough of it. */
static void drop(struct steps *core, uint32_t node, uint32_t bit)
{
	uint32_t at = slot_at(core, node, bit)->flow, tries = TRIES;
	int64_t start = core->numbers[bit] * core->step_ns, now = core->roster.now;
	core->busy[node] &= (uint8_t)~(1 << bit);
	take(core, at, (uint8_t)(1 << bit), -1);
	if (start + core->step_ns - (start > now ? start : now) < core->step_ns / LEAST_PART)
		return;
	const struct waiting *here = &core->waiting[node];
	for (uint32_t one = here->out_count; one-- && tries--;)
		loosen(core, here->out[one].flow);
	tries = TRIES;
	const struct flows *in = &core->waiting[core->flows[at].to].in;
	for (uint32_t one = in->count; one-- && tries--;)
		loosen(core, in->items[one]);
}

static void note_revoked(struct steps *core, uint32_t bit, const struct held *held)
{
	GROW(core->revokes, core->revoke_room, core->revoke_count + 1);
	core->revokes[core->revoke_count++] = slot_of(core, bit, held);
}

/* Time passes: steps that are over are forgotten. */
static void advance(struct steps *core, int64_t now)
{
	uint8_t over = 0;
	settle(core);
	core->roster.now = now;
	for (uint32_t bit = 0; bit < AHEAD; bit++)
		if (core->numbers[bit] >= 0 && (core->numbers[bit] + 1) * core->step_ns <= now) {
			core->numbers[bit] = -1;
			over |= (uint8_t)(1 << bit);
		}
	if (!over)
		return;
	core->planned &= (uint8_t)~over;
	uint8_t *busy = core->busy;
	uint32_t count = core->busy_room;
	for (uint32_t node = 0; node < count; node++)
		busy[node] &= (uint8_t)~over;
}
