/* The matching of senders and links: which flow sends in which step. A part of steps.c. */
#pragma once
#include "queue.h"

/* What a slot of a flow carries. */
static inline const struct credit *credit_of(struct steps *core, uint32_t at, int64_t length)
{
	const struct flow *flow = &core->flows[at];
	struct credit *credit = &core->credit;
	int64_t sends = flow->slow ? core->sends[at] : flow->need;
	if (credit->need == flow->need && credit->sends == sends && credit->length == length)
		return credit;
	uint64_t packet = (uint64_t)(core->packet_bytes * BYTE);
	wide due = (wide)flow->need * length * core->headroom_ppm, burst;
	bool huge = __builtin_mul_overflow(due, (wide)(sends - flow->need), &burst);
	*credit = (struct credit){flow->need, sends, length, 0, (uint64_t)(due / packet), (uint64_t)(due % packet), false};
	credit->rate = due < packet || due > MOST_CREDIT * BYTE || huge || burst / sends > core->burst_bytes * BYTE;
	credit->carried = credit->rate ? (int64_t)(due / BYTE) : (int64_t)credit->packets * core->packet_bytes;
	return credit;
}

/* Gives a flow the first of some steps that it has bytes for: `most` at most. Returns how many. */
static inline uint32_t choose(struct steps *core, uint32_t at, bits free, uint32_t from, uint32_t most)
{
	struct flow *flow = &core->flows[at];
	struct row *row = &core->rows[flow->node];
	int64_t left = flow->left, whole = left < UNKNOWN ? credit_of(core, at, core->step_ns)->carried : 0;
	uint32_t count = 0;
	bits chosen = 0;
	for (uint32_t turned = in_turn(free, from); turned && count < most && left > 0; turned &= turned - 1, count++) {
		uint32_t bit = (from + (uint32_t)__builtin_ctz(turned)) % AHEAD;
		chosen |= (bits)(1 << bit);
		row->of[bit] = at;
		if (left < UNKNOWN && !core->punctual)
			left -= credit_of(core, at, (core->numbers[bit] + 1) * core->step_ns - start_of(core, bit, at))->carried;
		else
			left -= whole;
	}
	take(core, at, chosen, 1);
	flow->steps |= chosen;
	core->busy[flow->node] |= chosen;
	flow->left = left;
	if (left <= 0) {
		core->wanted[at >> 6] &= ~((uint64_t)1 << (at & 63));
		add(&core->spent, at);
	}
	return count;
}

/* Flows whose bytes have slots wait no more. */
static void count_spent(struct steps *core)
{
	const uint32_t *spent = core->spent.items;
	for (uint32_t one = 0; one < core->spent.count; one++) {
		if (one + 2 * SOON < core->spent.count)
			__builtin_prefetch(&core->roster.couples[spent[one + 2 * SOON]]);
		if (one + SOON < core->spent.count) {
			const struct flow *flow = &core->flows[spent[one + SOON]];
			__builtin_prefetch(core->waiting[flow->node].out);
			__builtin_prefetch(core->waiting[flow->to].in.items);
		}
		count_waiting(core, spent[one], false);
	}
	core->spent.count = 0;
}

/* Gives the flows that are loose what is free in planned steps. */
static void refill(struct steps *core)
{
	core->refilled.count = 0;
	core->punctual = false;
	for (uint32_t one = 0; one < core->loose.count; one++) {
		uint32_t at = core->loose.items[one];
		core->flows[at].loose = false;
		if (!is_wanted(core, at))
			continue;
		bits free = in_time(core, at, fitting(core, at, core->planned));
		uint32_t from = first_step(core) % AHEAD, node = core->flows[at].node;
		bits before = core->busy[node];
		choose(core, at, free, from, AHEAD);
		if (core->busy[node] != before) {
			add(&core->refilled, node);
			add(&core->refilled, core->busy[node] ^ before);
		}
	}
	core->loose.count = 0;
}

/* Notes which of some places of the queue may be served, and has what is known of them fetched. No branch: it would be predicted
 * wrong. */
static inline uint32_t sift(const struct steps *core, uint32_t from, uint32_t to, uint32_t *found)
{
	const struct place *places = core->queue.items;
	const struct flow *flows = core->flows;
	const bits *open = core->open;
	uint32_t count = 0, window = core->window;
	for (uint32_t one = from; one < to; one++) {
		const struct place *place = &places[one];
		found[count] = one;
		count += (open[place->first] & open[place->second] & open[place->third] & open[place->last] & window) != 0;
	}
	for (uint32_t one = 0; one < count; one++)
		__builtin_prefetch(&flows[places[found[one]].flow]);
	return count;
}

/* Serves a flow if it may send; whether it leaves its place. */
static inline bool serve(struct steps *core, const struct place *place)
{
	uint32_t at = place->flow;
	const bits *open = core->open;
	bits free = open[place->first] & open[place->second] & open[place->third] & open[place->last] & core->window;
	if (!free)
		return false;
	struct flow *flow = &core->flows[at];
	if (flow->count > INLINE || core->uneven)
		free = fitting(core, at, free);
	if (free && !is_wanted(core, at)) {
		leave(core, at);
		retire(core, at);
		return true;
	}
	if (free && !core->punctual)
		free = in_time(core, at, free);
	if (!free)
		return false;
	if (!(core->busy[flow->node] & core->window))
		add(&core->picked, flow->node);
	uint32_t count = choose(core, at, free, core->window_from, flow->credit < AHEAD ? (uint32_t)flow->credit : AHEAD);
	core->chosen_count += count;
	flow->credit -= count;
	if (is_wanted(core, at) && flow->credit >= 1)
		return false;
	if (is_wanted(core, at)) {
		served(core, place);
	} else {
		leave(core, at);
		retire(core, at);
	}
	return true;
}

static inline void serve_all(struct steps *core, const uint32_t *found, uint32_t count)
{
	for (uint32_t one = 0; one < count; one++) {
		if (one + SOON / 2 < count)
			__builtin_prefetch(&core->rows[core->flows[core->queue.items[found[one + SOON / 2]].flow].node], 1);
		struct place place = core->queue.items[found[one]];
		if (serve(core, &place)) {
			core->queue.items[found[one]] = LEFT;
			core->gone++;
		}
	}
}

/* Goes through the queue, which grows meanwhile by the flows that were served. A flow is served some flows after it was found, so
 * that it has come from memory. */
static void go_through(struct steps *core)
{
	uint32_t found[SOON + BLOCK], count = 0;
	for (uint32_t from = 0; from < core->queue.count || count;) {
		uint32_t to = from + BLOCK < core->queue.count ? from + BLOCK : core->queue.count;
		count += sift(core, from, to, found + count);
		uint32_t due = to == core->queue.count ? count : count > SOON ? count - SOON : 0;
		serve_all(core, found, due);
		count -= due;
		memmove(found, found + due, count * sizeof(*found));
		from = to;
	}
}

/* Fills steps that follow one another. */
static void match(struct steps *core, int64_t first, uint32_t count)
{
	core->window = 0;
	core->window_from = first % AHEAD;
	for (int64_t number = first; number < first + count; number++) {
		core->numbers[number % AHEAD] = number;
		core->window |= (bits)(1 << number % AHEAD);
	}
	core->punctual = core->roster.now + core->longest_delay <= first * core->step_ns;
	clear(core, core->window);
	wake_all(core);
	go_through(core);
	if (core->gone > core->queue.count / 4)
		close_ranks(core);
	core->planned |= core->window;
	core->filled = core->chosen_count / count;
}
