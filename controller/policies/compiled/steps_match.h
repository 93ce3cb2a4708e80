/* The matching of senders and links: which flow sends in which step. A part of steps.c. */
#pragma once
#include "steps_queue.h"

static inline void choose(struct steps *core, uint32_t at, uint32_t bit)
{
	uint32_t node = core->flows[at].node;
	take(core, at, bit, 1);
	core->rows[node].of[bit] = at;
	core->busy[node] |= (uint8_t)(1 << bit);
}

/* Gives the flows that are loose what is free in planned steps. */
static void refill(struct steps *core)
{
	core->refilled.count = 0;
	for (uint32_t one = 0; one < core->loose.count; one++) {
		uint32_t at = core->loose.items[one];
		core->flows[at].loose = false;
		if (!is_wanted(core, at))
			continue;
		uint8_t free = in_time(core, at, fitting(core, at, core->planned));
		while (free) {
			uint32_t bit = soonest(free, first_step(core) % AHEAD);
			choose(core, at, bit);
			add(&core->refilled, core->flows[at].node);
			add(&core->refilled, bit);
			free &= (uint8_t)~(1 << bit);
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
	const uint8_t *open = core->open;
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
	const uint8_t *open = core->open;
	uint8_t free = open[place->first] & open[place->second] & open[place->third] & open[place->last] & core->window;
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
	while (free) {
		uint32_t bit = soonest(free, core->window_from);
		free &= (uint8_t)~(1 << bit);
		if (!(core->busy[flow->node] & core->window))
			add(&core->picked, flow->node);
		choose(core, at, bit);
		core->chosen_count++;
		flow->credit -= 1;
		if (flow->credit < 1) {
			served(core, place);
			return true;
		}
	}
	return false;
}

static inline void serve_all(struct steps *core, const uint32_t *found, uint32_t count)
{
	for (uint32_t one = 0; one < count; one++) {
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
		core->window |= (uint8_t)(1 << number % AHEAD);
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
