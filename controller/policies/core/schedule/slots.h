/* This file keeps the slots: it begins, releases, ends, drops and revokes them, and notes which resources that frees and which
 * pairs are to be tried again. A part of schedule.c. */
#pragma once
#include "pairs.h"

static void end_round(struct core *core)
{
	core->oldest_done = core->oldest_count = 0;
	core->served.pair = NONE;
	core->round++;
}

static void forget_freed(struct core *core)
{
	for (uint32_t one = 0; one < core->freed_count; one++)
		core->resources[core->freed[one]].freed = core->resources[core->freed[one]].early = false;
	core->freed_count = 0;
}

static void loosen(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	if (!pair->wanted || !pair->placed || pair->booking != NONE || pair->entered)
		return;
	park(core, at, NEW);
	note_freed(core, NEW, false);
}

static void free_resources(struct core *core, const struct booking *booking, bool early)
{
	struct pair *pair = &core->pairs[booking->pair];
	struct node *node = &core->nodes[pair->node];
	for (uint32_t take = 0; take < pair->links; take++)
		note_freed(core, core->links[(size_t)booking->pair * core->links_most + take], early);
	note_freed(core, node->resource, early);
	if (pair->last != pair->granted) {
		pair->before_last = pair->last;
		pair->before_host = node->last;
		pair->last = node->last = pair->granted;
	}
	loosen(core, booking->pair);
}

static struct slot slot_of(const struct core *core, uint32_t at)
{
	const struct booking *booking = &core->bookings[at];
	const struct pair *pair = &core->pairs[booking->pair];
	return (struct slot){
		(int64_t)booking->number, core->nodes[pair->node].id, pair->destination, booking->start, booking->end,
		booking->bytes, booking->rate, booking->amount,
	};
}

static uint32_t new_booking(struct core *core)
{
	uint32_t at = core->free_bookings;
	if (at != NONE) {
		core->free_bookings = core->bookings[at].after;
		return at;
	}
	at = core->booking_count++;
	GROW(core->bookings, core->booking_room, core->booking_count);
	return at;
}

static void forget_booking(struct core *core, uint32_t at)
{
	struct booking *booking = &core->bookings[at];
	if (booking->before != NONE)
		core->bookings[booking->before].after = booking->after;
	else
		core->first_slot = booking->after;
	if (booking->after != NONE)
		core->bookings[booking->after].before = booking->before;
	else
		core->last_slot = booking->before;
	booking->number = 0;
	booking->stamp += booking->stamp & 1;
	booking->after = core->free_bookings;
	core->free_bookings = at;
}

static void drop(struct core *core, uint32_t at)
{
	struct booking *booking = &core->bookings[at];
	struct pair *pair = &core->pairs[booking->pair];
	unbook(core, at);
	if (pair->booking == at)
		pair->booking = NONE;
	free_resources(core, booking, true);
	forget_booking(core, at);
}

static void revoke(struct core *core, uint32_t at)
{
	GROW(core->revokes, core->revoke_room, core->revoke_count + 1);
	core->revokes[core->revoke_count++] = slot_of(core, at);
	drop(core, at);
}

/* The first end of a slot that is not foreseen yet; -1: none. */
static int64_t next_end(struct core *core)
{
	struct dues *ends = &core->ends;
	while (ends->count) {
		const struct due *first = &ends->items[0];
		const struct booking *booking = &core->bookings[first->booking];
		if (booking->number == first->number && !booking->released && booking->end == first->at)
			return first->at;
		dues_pop(ends);
	}
	return -1;
}

enum { AHEAD = 4 };

static void fetch_pair(const struct core *core, uint32_t number)
{
	const struct pair *pair = &core->pairs[number];
	for (uint32_t line = 0; line < 3; line++)
		__builtin_prefetch((const char *)pair + line * LINE, 1);
	__builtin_prefetch(&core->links[(size_t)number * core->links_most]);
}

/* Fetches what will be needed of the next bookings of a list, each in steps, since each line says where the next one is. */
static void fetch(struct core *core, const struct due *list, uint32_t at, uint32_t count)
{
	if (at + 3 * AHEAD < count) {
		const struct booking *booking = &core->bookings[list[at + 3 * AHEAD].booking];
		__builtin_prefetch(booking, 1);
		__builtin_prefetch((const char *)booking + LINE, 1);
	}
	if (at + 2 * AHEAD < count)
		fetch_pair(core, core->bookings[list[at + 2 * AHEAD].booking].pair);
	for (uint32_t near = 1; near <= 2; near++) {
		if (at + near * AHEAD / 2 >= count)
			return;
		const struct pair *pair = &core->pairs[core->bookings[list[at + near * AHEAD / 2].booking].pair];
		for (uint32_t take = 0; take <= pair->links; take++) {
			struct resource *resource = resource_at(core, pair, take);
			__builtin_prefetch(near == 1 ? (void *)resource->points : resource, 1);
		}
	}
}

static void foresee(struct core *core, int64_t instant)
{
	uint32_t count = 0;
	for (int64_t end; (end = next_end(core)) >= 0 && end <= instant;) {
		GROW(core->due, core->due_room, count + 1);
		core->due[count++] = dues_pop(&core->ends);
	}
	for (uint32_t at = 0; at < count; at++) {
		struct due due = core->due[at];
		struct booking *booking = &core->bookings[due.booking];
		fetch(core, core->due, at, count);
		release(core, due.booking);
		core->pairs[booking->pair].booking = NONE;
		dues_push(&core->running, due);
		free_resources(core, booking, false);
	}
}

static void advance(struct core *core, int64_t now)
{
	core->now = now;
	if (core->rewiring) /* bookings hold nothing that could be released */
		return;
	foresee(core, now);
	uint32_t count = 0;
	while (core->running.count && core->running.items[0].at <= now) {
		GROW(core->due, core->due_room, count + 1);
		core->due[count++] = dues_pop(&core->running);
	}
	for (uint32_t at = 0; at < count; at++) {
		if (at + AHEAD < count)
			__builtin_prefetch(&core->bookings[core->due[at + AHEAD].booking], 1);
		if (core->bookings[core->due[at].booking].number == core->due[at].number)
			forget_booking(core, core->due[at].booking); /* what it had booked is over */
	}
}
