/* This file chooses the pairs that a plan tries: those that wait for what was freed, and new ones. A part of schedule.c. */
#pragma once
#include "granting.h"

static bool line_has_room(const struct core *core, const struct line *line)
{
	const struct resource *resource = &core->resources[line->resource];
	return resource->reserved + line->need <= resource->capacity;
}

/* Has the first of a line tried, if its resource has room for it. */
static void queue(struct core *core, uint32_t number)
{
	struct line *line = &core->lines[number];
	const struct entry *first = head(core, line);
	if (!first || !line_has_room(core, line) || (line->first == first->pair && line->first_stamp == first->stamp))
		return;
	line->first = first->pair;
	line->first_stamp = first->stamp;
	attempts_push(&core->attempts, (struct attempt){*first, line->of, number});
}

/* Fetches what is read of the resources that were freed, each in steps, since each says where the next one is. */
static void fetch_freed(const struct core *core, uint32_t at)
{
	if (at + 4 * AHEAD < core->freed_count)
		__builtin_prefetch(&core->resources[core->freed[at + 4 * AHEAD]], 1);
	if (at + 3 * AHEAD < core->freed_count) {
		uint32_t line = core->resources[core->freed[at + 3 * AHEAD]].lines;
		if (line != NONE)
			__builtin_prefetch(&core->lines[line], 1);
	}
	if (at + 2 * AHEAD < core->freed_count) {
		uint32_t line = core->resources[core->freed[at + 2 * AHEAD]].lines;
		if (line != NONE)
			__builtin_prefetch(core->lines[line].heap.items);
	}
	if (at + AHEAD < core->freed_count) {
		uint32_t line = core->resources[core->freed[at + AHEAD]].lines;
		if (line != NONE && core->lines[line].heap.count)
			__builtin_prefetch(&core->pairs[core->lines[line].heap.items[0].pair]);
	}
}

/* Fetches the pairs of which one is tried next, and of which one is the next in a line. */
static void fetch_next(const struct core *core, const struct line *line)
{
	if (core->attempts.count)
		fetch_pair(core, core->attempts.items[0].entry.pair);
	for (uint32_t at = 1; at <= 2 && at < line->heap.count; at++)
		__builtin_prefetch(&core->pairs[line->heap.items[at].pair]);
}

/* Has the first of each line tried that has room now, and notes who waited longest for each resource that was freed. */
static void take_freed(struct core *core)
{
	if (core->freed_count && core->oldest_done == core->oldest_count)
		core->begun = core->now;
	for (uint32_t one = 0; one < core->freed_count; one++) {
		fetch_freed(core, one);
		struct resource *resource = &core->resources[core->freed[one]];
		struct entry eldest = {.pair = NONE};
		for (uint32_t *link = &resource->lines, line; (line = *link) != NONE;) {
			const struct entry *first = head(core, &core->lines[line]);
			if (!first && core->lines[line].first == NONE) {
				forget_line(core, link);
				continue;
			}
			link = &core->lines[line].next;
			if (!first)
				continue;
			if (core->lines[line].of == ORDINARY && (eldest.pair == NONE || entry_before(first, &eldest)))
				eldest = *first;
			queue(core, line);
		}
		if (eldest.pair == NONE || core->freed[one] == NEW || resource->asked == core->round)
			continue;
		resource->asked = core->round;
		if (core->pairs[eldest.pair].eldest != core->round) {
			core->pairs[eldest.pair].eldest = core->round;
			GROW(core->oldest, core->oldest_room, core->oldest_count + 1);
			core->oldest[core->oldest_count++] = (struct eldest){eldest.number, eldest.pair};
		}
	}
	forget_freed(core);
}

/* Notes who waited longest for what was freed and got no slot, and books slots ahead for those it happened to often; no more than
 * the plan may grant. */
static void pass_over(struct core *core, int64_t instant)
{
	while (core->oldest_done < core->oldest_count && core->left) {
		struct eldest oldest = core->oldest[core->oldest_done++];
		struct pair *pair = &core->pairs[oldest.pair];
		struct entry entry = entry_of(core, oldest.pair);
		if (pair->number != oldest.number) /* it left since */
			continue;
		pair->eldest = 0;
		if (pair->entered && pair->wanted && pair->line != NEW &&
		    (core->served.pair == NONE || entry_before(&entry, &core->served)))
			if (++pair->passed_over >= core->patience)
				book_ahead(core, oldest.pair, instant);
	}
	if (core->oldest_done == core->oldest_count)
		end_round(core);
}

/* The plan has made as many attempts, or granted as many slots, as one may. */
static bool stopped(const struct core *core)
{
	return !core->left || !core->tries;
}

/* Tries the pairs that wait for what was freed, and the new ones, in their order, until all were tried or the plan stops. */
static void select_pairs(struct core *core, int64_t instant)
{
	core->instant = instant;
	take_freed(core);
	if (core->now - core->begun >= core->slice)
		pass_over(core, instant);
	while (core->attempts.count && !stopped(core)) {
		struct attempt next = attempts_pop(&core->attempts);
		struct pair *pair = &core->pairs[next.entry.pair];
		struct line *line = &core->lines[next.line];
		if (line->first != next.entry.pair || line->first_stamp != next.entry.stamp) /* out of date */
			continue;
		line->first = NONE;
		fetch_next(core, line);
		if (pair->entered && pair->stamp == next.entry.stamp && pair->wanted && line_has_room(core, line)) {
			bool is_new = line->resource == NEW;
			attempt(core, next.entry.pair, instant);
			if (is_new && next.of == ORDINARY && pair->booking != NONE &&
			    (core->served.pair == NONE || entry_before(&next.entry, &core->served)))
				core->served = next.entry;
		}
		queue(core, next.line);
	}
	if (!core->attempts.count)
		pass_over(core, instant);
}
