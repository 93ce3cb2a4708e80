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
		held->amount > 0 ? held->amount : 0, held->amount < 0 ? -held->amount : 0,
		core->rewiring ? core->needed[held->flow] : flow->need,
	};
}

/* What a slot permits; the remainder of a credit is carried to the node's next. */
static inline struct amount amount_of(struct steps *core, uint32_t at, int64_t length, uint64_t *carry)
{
	const struct credit *credit = credit_of(core, at, length);
	uint64_t lacks = credit->packet - *carry;
	bool more = credit->rest >= lacks;
	*carry = more ? credit->rest - lacks : credit->rest + *carry;
	return credit->amounts[more];
}

/* Grants a node what is chosen for it in some steps of the window. */
ALWAYS_INLINE void grant(struct steps *core, uint32_t node, bits steps)
{
	const uint32_t *row = row_of(core, node), *ids = core->ids, from = core->window_from, id = ids[node];
	const struct flow *flows = core->flows;
	struct held *held = core->held[node].of;
	struct slot *slot = &core->grants[core->grant_count];
	int64_t now = core->roster.now, number = (int64_t)core->last_number + 1, step_ns = core->step_ns;
	uint64_t carry = core->carries[node];
	bool punctual = core->punctual;
	number = number > now ? number : now;
	for (uint32_t turned = in_turn(steps, from); turned; turned &= turned - 1, slot++, number++) {
		uint32_t step = (uint32_t)__builtin_ctz(turned), bit = (from + step) % AHEAD, at = row[step];
		const struct flow *flow = &flows[at];
		int64_t start = core->numbers[bit] * step_ns, end = start + step_ns;
		if (!LIKELY(punctual))
			start = start_of(core, bit, at);
		struct amount amount = amount_of(core, at, end - start, &carry);
		held[bit] = (struct held){number, start, amount.bytes - amount.rate, at};
		*slot = (struct slot){number, id, ids[flow->to], start, end, amount.bytes, amount.rate, flow->need};
	}
	core->carries[node] = carry;
	core->last_number = (uint64_t)number - 1;
	core->grant_count = (uint32_t)(slot - core->grants);
}

static inline void prefetch_grants(const struct steps *core, uint32_t node)
{
	const uint32_t *row = row_of(core, node), from = core->window_from;
	for (uint32_t turned = in_turn(core->busy[node] & core->window, from); turned; turned &= turned - 1) {
		uint32_t step = (uint32_t)__builtin_ctz(turned);
		__builtin_prefetch(&core->flows[row[step]]);
		__builtin_prefetch(slot_at(core, node, (from + step) % AHEAD), 1);
	}
}

/* Grants what is chosen in the window. The slots of a node lie side by side. */
static void grant_chosen(struct steps *core)
{
	const uint32_t *picked = core->picked.items;
	GROW(core->grants, core->grant_room, core->grant_count + core->chosen_count);
	for (uint32_t one = 0; one < core->picked.count; one++) {
		if (one + FAR < core->picked.count) {
			__builtin_prefetch(row_of(core, picked[one + FAR]));
			__builtin_prefetch(&core->carries[picked[one + FAR]], 1);
		}
		if (one + FAR / 2 < core->picked.count)
			prefetch_grants(core, picked[one + FAR / 2]);
		grant(core, picked[one], core->busy[picked[one]] & core->window);
	}
}

/* Grants the flows that are loose what is free in planned steps, which are the window meanwhile. */
static void refill(struct steps *core)
{
	core->window_from = first_step(core) % AHEAD;
	core->window_size = AHEAD;
	core->punctual = false;
	for (uint32_t one = 0; one < core->loose.count; one++) {
		uint32_t at = core->loose.items[one], node = core->flows[at].node;
		core->flows[at].loose = false;
		if (!core->planned || !is_wanted(core, at))
			continue;
		bits before = core->busy[node];
		if (!choose(core, at, in_time(core, at, fitting(core, at, core->planned)), AHEAD))
			continue;
		GROW(core->grants, core->grant_room, core->grant_count + AHEAD);
		grant(core, node, core->busy[node] ^ before);
	}
	core->loose.count = 0;
}

/* Ends a node's slot now, and has the rest of the step tried for others if there is enough of it. */
static void drop(struct steps *core, uint32_t node, uint32_t bit)
{
	uint32_t at = slot_at(core, node, bit)->flow, tries = TRIES;
	int64_t start = core->numbers[bit] * core->step_ns, now = core->roster.now;
	core->busy[node] &= (bits)~(1 << bit);
	if (!core->rewiring) /* no slot takes anything meanwhile */
		take(core, at, (bits)(1 << bit), -1);
	if (start + core->step_ns - (start > now ? start : now) < core->step_ns / LEAST_PART)
		return;
	const struct roster *roster = &core->roster;
	for (uint32_t one = roster->members[node].from; one != NONE && tries--; one = roster->couples[one].from_after)
		loosen(core, one);
	tries = TRIES;
	for (uint32_t one = roster->members[core->flows[at].to].to; one != NONE && tries--; one = roster->couples[one].to_after)
		loosen(core, one);
}

static void note_revoked(struct steps *core, uint32_t bit, const struct held *held)
{
	GROW(core->revokes, core->revoke_room, core->revoke_count + 1);
	core->revokes[core->revoke_count++] = slot_of(core, bit, held);
}

/* Time passes: steps that are over are forgotten. */
static void advance(struct steps *core, int64_t now)
{
	bits over = 0;
	settle(core);
	core->roster.now = now;
	for (uint32_t bit = 0; bit < AHEAD; bit++)
		if (core->numbers[bit] >= 0 && (core->numbers[bit] + 1) * core->step_ns <= now) {
			core->numbers[bit] = -1;
			over |= (bits)(1 << bit);
		}
	if (!over)
		return;
	core->planned &= (bits)~over;
	bits *busy = core->busy;
	uint32_t count = core->busy_room;
	for (uint32_t node = 0; node < count; node++)
		busy[node] &= (bits)~over;
}
