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

/* Has the first of each line tried that has room now, and notes who waited longest for each resource that was freed. */
static void take_freed(struct core *core)
{
	if (core->freed_count && core->oldest_done == core->oldest_count)
		core->begun = core->now;
	for (uint32_t one = 0; one < core->freed_count; one++) {
		struct resource *resource = &core->resources[core->freed[one]];
		struct entry eldest = {.pair = NONE};
		for (uint32_t line = resource->lines; line != NONE; line = core->lines[line].next) {
			const struct entry *first = head(core, &core->lines[line]);
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
		pair->eldest = 0;
		if (pair->number == oldest.number && pair->entered && pair->wanted && pair->line != NEW &&
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
