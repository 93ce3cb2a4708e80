/* This file keeps the slots: it begins, releases, ends, drops and revokes them, and notes which resources that frees and which
 * pairs are to be tried again. A part of schedule.c. */
#pragma once
#include "pairs.h"

static void note_freed(struct core *core, uint32_t resource)
{
	if (core->resources[resource].freed)
		return;
	core->resources[resource].freed = true;
	GROW(core->freed, core->freed_room, core->freed_count + 1);
	core->freed[core->freed_count++] = resource;
}

static void loosen(struct core *core, uint32_t at)
{
	struct pair *pair = &core->pairs[at];
	if (!pair->wanted || !pair->placed || pair->booking != NONE || pair->entered || pair->loose)
		return;
	pair->loose = true;
	pair->loose_at = core->loose_count;
	GROW(core->loose, core->loose_room, core->loose_count + 1);
	core->loose[core->loose_count++] = at;
}

static void free_resources(struct core *core, const struct booking *booking)
{
	struct pair *pair = &core->pairs[booking->pair];
	struct node *node = &core->nodes[pair->node];
	for (uint32_t take = 0; take < pair->links; take++)
		note_freed(core, core->links[(size_t)booking->pair * core->links_most + take]);
	note_freed(core, node->resource);
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
	GROW(core->positions, core->positions_room, core->booking_room * (core->links_most + 1));
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
	free_resources(core, booking);
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

static void foresee(struct core *core, int64_t instant)
{
	for (int64_t end; (end = next_end(core)) >= 0 && end <= instant;) {
		struct due due = dues_pop(&core->ends);
		struct booking *booking = &core->bookings[due.booking];
		release(core, due.booking);
		core->pairs[booking->pair].booking = NONE;
		dues_push(&core->running, due);
		free_resources(core, booking);
	}
}

static void advance(struct core *core, int64_t now)
{
	core->now = now;
	if (core->rewiring) /* bookings hold nothing that could be released */
		return;
	foresee(core, now);
	while (core->running.count && core->running.items[0].at <= now) {
		struct due due = dues_pop(&core->running);
		if (core->bookings[due.booking].number == due.number) {
			unbook(core, due.booking);
			forget_booking(core, due.booking);
		}
	}
}
