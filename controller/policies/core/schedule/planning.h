/* This file chooses the pairs that a plan tries, grants them slots, lets slots begin earlier where room was freed, and writes
 * what was granted. A part of schedule.c. */
#pragma once
#include "slots.h"

static void grant(struct core *core, uint32_t number, int64_t start)
{
	uint32_t at = new_booking(core);
	struct pair *pair = &core->pairs[number];
	struct booking *booking = &core->bookings[at];
	int64_t end = start + pair->length, reserved = pair->full;
	if (pair->need < reserved)
		for (uint32_t take = 0; take < pair->links; take++) {
			struct resource *link = resource_at(core, pair, take);
			reserved = least(reserved, link->capacity - peak(link, start, end));
		}
	pair->granted = ++core->turns;
	core->left -= core->left > 0;
	pair->passed_over = 0;
	pair->entered = false;
	core->last_number = (uint64_t)most((int64_t)core->last_number + 1, core->now);
	*booking = (struct booking){
		.number = core->last_number, .start = start, .end = end, .amount = reserved, .pair = number,
		.before = core->last_slot, .after = NONE, .stamp = booking->stamp,
	};
	booking->bytes = amount_of(core, pair, reserved, &booking->rate);
	if (pair->deadline) {
		int64_t passing = booking->bytes ? booking->bytes : (int64_t)((wide)booking->rate * pair->length / (8ll * SECOND_NS));
		pair->deadline = most(0, pair->deadline - passing);
	}
	if (pair->newest)
		pair->used = 0;
	pair->newest = booking->number;
	pair->newest_bytes = booking->bytes;
	pair->newest_length = pair->length;
	pair->length = least(pair->turn, pair->length * 3 / 2);
	if (core->last_slot != NONE)
		core->bookings[core->last_slot].after = at;
	else
		core->first_slot = at;
	core->last_slot = at;
	book(core, at);
	pair->booking = at;
	dues_push(&core->ends, (struct due){end, booking->number, at});
	GROW(core->granted, core->granted_room, core->granted_count + 1);
	core->granted[core->granted_count++] = at;
}

/* A resource that has no room for a pair from a start on, and in *next when it may have; NONE: there is room. */
static uint32_t blocker(struct core *core, const struct pair *pair, int64_t start, int64_t *next)
{
	const uint32_t *links = &core->links[(size_t)(pair - core->pairs) * core->links_most];
	int64_t end = start + pair->length;
	for (uint32_t take = 0; take < pair->links; take++)
		if (!has_room_ahead(&core->resources[links[take]], start, end, pair->need, next))
			return links[take];
	uint32_t host = core->nodes[pair->node].resource;
	return has_room_ahead(&core->resources[host], start, end, 1, next) ? NONE : host;
}

/* Grants a slot from an instant on, or from the end of a slot that was granted before; or parks the pair where the last of these
 * ends has no room for it. Before `next` none has. */
static void attempt(struct core *core, uint32_t number, int64_t instant)
{
	struct pair *pair = &core->pairs[number];
	int64_t next;
	pair->entered = false;
	instant = most(instant, core->now + core->nodes[pair->node].delay);
	uint32_t full = blocker(core, pair, instant, &next);
	if (full != NONE && core->resources[full].settled > instant) {
		int64_t last = newest_release(core, pair, instant);
		while (full != NONE && instant < last) {
			instant = next < last ? next_release(core, pair, next) : last;
			full = blocker(core, pair, instant, &next);
		}
	}
	if (full == NONE)
		grant(core, number, instant);
	else
		park(core, number, full);
}

static void book_ahead(struct core *core, uint32_t number, int64_t instant)
{
	struct pair *pair = &core->pairs[number];
	int64_t start = most(instant, core->now + core->nodes[pair->node].delay);
	grant(core, number, earliest(core, pair, start, pair->length, pair->need, INT64_MAX));
}

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
	return (struct attempt){entry_of(core, number), core->pairs[number].deadline ? URGENT : ORDINARY, NONE};
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

static void collect_ahead(struct core *core, uint32_t number)
{
	struct resource *resource = &core->resources[number];
	sweep(core, resource);
	for (uint32_t at = 0; at < resource->count; at++) {
		struct booking *booking = &core->bookings[resource->spans[at].booking];
		if (booking->start > core->now && booking->seen != core->forwarding) {
			booking->seen = core->forwarding;
			dues_push(&core->ahead, (struct due){booking->start, booking->number, resource->spans[at].booking});
		}
	}
}

/* Lets slots that have not begun begin earlier where room was freed, the earliest slot first; FORWARD_AT_ONCE are tried at most. */
static void bring_forward(struct core *core)
{
	core->forwarding++;
	for (uint32_t one = 0; one < core->freed_count; one++)
		collect_ahead(core, core->freed[one]);
	for (uint32_t tries = FORWARD_AT_ONCE; core->ahead.count && tries; tries--) {
		struct due due = dues_pop(&core->ahead);
		struct booking *booking = &core->bookings[due.booking];
		const struct pair *pair = &core->pairs[booking->pair];
		int64_t length = booking->end - booking->start, start = core->now + core->nodes[pair->node].delay;
		unbook(core, due.booking);
		start = earliest(core, pair, start, length, booking->amount, due.at);
		booking->start = start;
		booking->end = start + length;
		book(core, due.booking);
		if (start == due.at)
			continue;
		GROW(core->granted, core->granted_room, core->granted_count + 1);
		core->granted[core->granted_count++] = due.booking;
		dues_push(booking->released ? &core->running : &core->ends, (struct due){booking->end, booking->number, due.booking});
		for (uint32_t take = 0; take < pair->links; take++)
			collect_ahead(core, core->links[(size_t)booking->pair * core->links_most + take]);
		collect_ahead(core, core->nodes[pair->node].resource);
	}
	core->ahead.count = 0;
}

static bool granted_before(const struct slot *a, const struct slot *b)
{
	return a->start != b->start ? a->start < b->start : a->slot < b->slot;
}

/* Writes the slots that were granted in the order of their starts and numbers, which they mostly have already: by merging
 * runs. */
static void write_grants(struct core *core)
{
	uint32_t count = core->granted_count;
	GROW(core->grants, core->grant_room, count);
	GROW(core->sorted, core->sorted_room, count);
	for (uint32_t at = 0; at < count; at++)
		core->grants[at] = slot_of(core, core->granted[at]);
	for (bool merged = true; merged;) {
		merged = false;
		uint32_t from = 0, to = 0;
		while (from < count) {
			uint32_t middle = from + 1;
			while (middle < count && !granted_before(&core->grants[middle], &core->grants[middle - 1]))
				middle++;
			uint32_t end = middle < count ? middle + 1 : middle;
			while (end < count && !granted_before(&core->grants[end], &core->grants[end - 1]))
				end++;
			if (!from && middle == count)
				return;
			for (uint32_t one = from, other = middle; one < middle || other < end;) {
				bool first = other == end || (one < middle && granted_before(&core->grants[one], &core->grants[other]));
				core->sorted[to++] = core->grants[first ? one++ : other++];
			}
			merged = true;
			from = end;
		}
		struct slot *grants = core->grants;
		uint32_t room = core->grant_room;
		core->grants = core->sorted;
		core->grant_room = core->sorted_room;
		core->sorted = grants;
		core->sorted_room = room;
	}
}
