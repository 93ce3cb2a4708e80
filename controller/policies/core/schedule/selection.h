/* This file chooses the pairs that a plan tries: those that wait for what was freed, and new ones. A part of schedule.c. */
#pragma once
#include "granting.h"

static void push_head(struct core *core, uint32_t line)
{
	const struct entry *first = head(core, &core->lines[line]);
	if (first && core->pairs[first->pair].tried != core->trial)
		attempts_push(&core->attempts, (struct attempt){*first, core->lines[line].of, line});
}

static bool line_has_room(const struct core *core, const struct line *line)
{
	const struct resource *resource = &core->resources[line->resource];
	return resource->reserved + line->need <= resource->capacity;
}

static struct attempt loose_attempt(const struct core *core, uint32_t number)
{
	return (struct attempt){entry_of(core, number), urgent(&core->pairs[number]) ? URGENT : ORDINARY, NONE};
}

/* Brings the first `count` of some attempts to their beginning, in any order (Hoare's selection). */
static void select_first(struct attempt *attempts, uint32_t all, uint32_t count)
{
	uint32_t from = 0, to = all; /* between these it is not known yet */
	while (count > from && count < to) {
		struct attempt middle = attempts[from + (to - from - 1) / 2];
		uint32_t low = from, high = to - 1;
		for (;;) {
			while (ATTEMPT_BEFORE(attempts[low], middle))
				low++;
			while (ATTEMPT_BEFORE(middle, attempts[high]))
				high--;
			if (low >= high)
				break;
			struct attempt other = attempts[low];
			attempts[low++] = attempts[high];
			attempts[high--] = other;
		}
		if (count <= high)
			to = high + 1;
		else
			from = high + 1;
	}
}

/* Has the loose pairs tried, as many as may be, those that are first in the order. */
static void take_loose(struct core *core)
{
	uint32_t all = core->loose_count, count = core->tries < all ? core->tries : all, before = core->attempts.count;
	if (!count)
		return;
	GROW(core->attempts.items, core->attempts.room, before + all);
	for (uint32_t one = 0; one < all; one++)
		core->attempts.items[before + one] = loose_attempt(core, core->loose[one]);
	select_first(core->attempts.items + before, all, count);
	for (uint32_t one = 0; one < count; one++) {
		struct attempt attempt = core->attempts.items[before + one];
		unloose(core, &core->pairs[attempt.entry.pair]);
		attempts_push(&core->attempts, attempt);
	}
}

/* Leaves the loose pairs that were not tried to the next plan. */
static void put_off(struct core *core)
{
	uint32_t count = core->attempts.count;
	core->attempts.count = 0;
	for (uint32_t one = 0; one < count; one++) {
		struct attempt attempt = core->attempts.items[one];
		if (attempt.line == NONE)
			loosen(core, attempt.entry.pair);
		else
			attempts_push(&core->attempts, attempt);
	}
}

/* Notes who waits first, and longest, for what was freed. */
static void take_freed(struct core *core)
{
	core->trial++;
	core->attempts.count = 0;
	if (!core->oldest_count)
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
			if (line_has_room(core, &core->lines[line]))
				attempts_push(&core->attempts, (struct attempt){*first, core->lines[line].of, line});
		}
		if (eldest.pair == NONE || resource->asked == core->selection)
			continue;
		resource->asked = core->selection;
		if (core->pairs[eldest.pair].eldest != core->selection) {
			core->pairs[eldest.pair].eldest = core->selection;
			GROW(core->oldest, core->oldest_room, core->oldest_count + 1);
			core->oldest[core->oldest_count++] = (struct eldest){eldest.number, eldest.pair};
		}
	}
}

/* Notes who waited longest for what was freed and got no slot, and books slots ahead for those it happened to often. */
static void pass_over(struct core *core, int64_t instant)
{
	for (uint32_t one = 0; one < core->oldest_count; one++) {
		uint32_t number = core->oldest[one].pair;
		struct pair *pair = &core->pairs[number];
		struct entry entry = entry_of(core, number);
		if (pair->number == core->oldest[one].number && pair->entered && pair->wanted &&
		    (core->served.pair == NONE || entry_before(&entry, &core->served)))
			if (++pair->passed_over >= core->patience)
				book_ahead(core, number, instant);
	}
	forget_oldest(core);
}

/* Tries the pairs that wait for what was freed, and the new ones, in their order; in one plan LOOSE_AT_ONCE new ones, and
 * `at_once` that get a slot, at most. */
static void select_pairs(struct core *core, int64_t instant)
{
	core->instant = instant;
	if (core->more)
		take_freed(core);
	core->more = false;
	take_loose(core);
	while (core->attempts.count && core->left) {
		struct attempt next = attempts_pop(&core->attempts);
		struct pair *pair = &core->pairs[next.entry.pair];
		if (next.line == NONE) {
			core->tries--;
			attempt(core, next.entry.pair, instant);
			if (next.of == ORDINARY && pair->booking != NONE &&
			    (core->served.pair == NONE || entry_before(&next.entry, &core->served)))
				core->served = next.entry;
		} else if (line_has_room(core, &core->lines[next.line])) {
			if (pair->entered && pair->stamp == next.entry.stamp && pair->wanted && pair->tried != core->trial) {
				attempt(core, next.entry.pair, instant);
				pair->tried = core->trial;
			}
			push_head(core, next.line);
		}
	}
	if (!core->attempts.count) {
		pass_over(core, instant);
		end_selection(core);
		return;
	}
	put_off(core); /* the plan is over */
	if (core->now - core->begun >= core->slice)
		pass_over(core, instant);
}
