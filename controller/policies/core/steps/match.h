/* The matching of senders and links: which flow sends in which step. A part of steps.c. */
#pragma once
#include "queue.h"

/* Reckons what a slot carries. Apart from `credit_of`, which seldom needs it, and is a part of what all grants do. */
static __attribute__((noinline)) void reckon(struct steps *core, int64_t need, int64_t sends, int64_t length)
{
	struct credit *credit = &core->credit;
	uint64_t packet = (uint64_t)(core->packet_bytes * BYTE);
	wide due = (wide)need * length * core->headroom_ppm, burst;
	bool huge = __builtin_mul_overflow(due, (wide)(sends - need), &burst);
	*credit = (struct credit){.need = need, .sends = sends, .length = length, .packet = packet};
	if (due < packet || due > MOST_CREDIT * BYTE || huge || burst / sends > core->burst_bytes * BYTE) {
		int64_t rate = (int64_t)((wide)need * core->headroom_ppm / PPM);
		credit->carried = (int64_t)(due / BYTE);
		credit->amounts[0].rate = credit->amounts[1].rate = rate ? rate : 1;
	} else {
		credit->carried = (int64_t)(due / packet) * core->packet_bytes;
		credit->rest = (uint64_t)(due % packet);
		credit->amounts[0].bytes = credit->carried;
		credit->amounts[1].bytes = credit->carried + core->packet_bytes;
	}
}

/* What a slot of a flow carries. */
static inline const struct credit *credit_of(struct steps *core, uint32_t at, int64_t length)
{
	const struct flow *flow = &core->flows[at];
	const struct credit *credit = &core->credit;
	int64_t sends = flow->slow ? core->sends[at] : flow->need;
	if (!LIKELY(credit->need == flow->need && credit->sends == sends && credit->length == length))
		reckon(core, flow->need, sends, length);
	return credit;
}

/* Gives a flow the first of some steps of the window that it has bytes for: `most` at most. Returns how many. */
ALWAYS_INLINE uint32_t choose(struct steps *core, uint32_t at, bits free, uint32_t most)
{
	struct flow *flow = &core->flows[at];
	uint32_t *row = row_of(core, flow->node), from = core->window_from, count = 0;
	int64_t left = flow->left, whole = left < UNKNOWN && core->punctual ? credit_of(core, at, core->step_ns)->carried : 0;
	bits chosen = 0;
	for (uint32_t turned = in_turn(free, from); turned && count < most && left > 0; turned &= turned - 1, count++) {
		uint32_t step = (uint32_t)__builtin_ctz(turned), bit = (from + step) % AHEAD;
		chosen |= (bits)(1 << bit);
		row[step] = at;
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
		flow->wanted = false;
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
		if (one + SOON < core->spent.count)
			prefetch_beside(core, spent[one + SOON]);
		count_waiting(core, spent[one], false);
	}
	core->spent.count = 0;
}

enum { BLOCK = 16, DUE = 64 }; /* BLOCK: places that are sifted at once; DUE: a power of two with room for these and FAR */

/* Places of the queue that are to be served, by their indexes: number `begin` up to `end` are at these modulo DUE. */
struct due {
	uint32_t at[DUE], begin, end;
};

/* Notes which of some places of the queue may be served. No branch: it would be predicted wrong. */
static inline void sift(const struct steps *core, uint32_t from, uint32_t to, struct due *due)
{
	const struct place *places = core->queue.items;
	const bits *open = core->open;
	uint32_t end = due->end, window = core->window;
	for (uint32_t one = from; one < to; one++) {
		const struct place *place = &places[one];
		due->at[end % DUE] = one;
		end += (open[place->first] & open[place->second] & open[place->third] & open[place->last] & window) != 0;
	}
	due->end = end;
}

/* Serves a flow if it may send; whether it leaves its place. */
ALWAYS_INLINE bool serve(struct steps *core, const struct place *place)
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
	core->picked.items[core->picked.count] = flow->node; /* counts if it is the node's first; no branch here, either */
	core->picked.count += !(core->busy[flow->node] & core->window);
	uint32_t count = choose(core, at, free, flow->credit < AHEAD ? (uint32_t)flow->credit : AHEAD);
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

/* Has what is known of the flows fetched that are served soon. */
static inline void prefetch_due(const struct steps *core, const struct due *due, uint32_t one)
{
	const struct place *places = core->queue.items;
	if (one + FAR < due->end)
		__builtin_prefetch(&core->flows[places[due->at[(one + FAR) % DUE]].flow], 1);
	if (one + FAR / 2 < due->end)
		__builtin_prefetch(row_of(core, core->flows[places[due->at[(one + FAR / 2) % DUE]].flow].node), 1);
}

/* Goes through the queue, which grows meanwhile by the flows that were served. A flow is served some flows after it was found, so
 * that it has come from memory. */
static void go_through(struct steps *core)
{
	struct due due = {.begin = 0};
	for (uint32_t from = 0; from < core->queue.count || due.begin < due.end;) {
		uint32_t to = from + BLOCK < core->queue.count ? from + BLOCK : core->queue.count;
		sift(core, from, to, &due);
		uint32_t later = to == core->queue.count ? 0 : FAR;
		for (; due.begin + later < due.end; due.begin++) {
			prefetch_due(core, &due, due.begin);
			uint32_t at = due.at[due.begin % DUE];
			struct place place = core->queue.items[at];
			if (serve(core, &place)) {
				core->queue.items[at] = LEFT;
				core->gone++;
			}
		}
		from = to;
	}
}

/* Fills steps that follow one another. */
static void match(struct steps *core, int64_t first, uint32_t count)
{
	core->window = 0;
	core->window_from = first % AHEAD;
	core->window_size = count;
	for (int64_t number = first; number < first + count; number++) {
		core->numbers[number % AHEAD] = number;
		core->window |= (bits)(1 << number % AHEAD);
	}
	core->punctual = core->roster.now + core->longest_delay <= first * core->step_ns;
	clear(core, core->window);
	GROW(core->picked.items, core->picked.room, core->busy_room + 1);
	wake_all(core);
	go_through(core);
	if (core->gone > core->queue.count / 4)
		close_ranks(core);
	core->planned |= core->window;
	core->filled = core->chosen_count / count;
}
