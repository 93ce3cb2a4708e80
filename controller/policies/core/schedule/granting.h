/* This file grants a pair a slot where there is room for it, from an instant on. A part of schedule.c. */
#pragma once
#include "slots.h"

/* Fetches what an attempt reads of a pair's resources, and what a booking changes. */
static void fetch_resources(struct core *core, const struct pair *pair)
{
	for (uint32_t take = 0; take <= pair->links; take++)
		__builtin_prefetch(resource_at(core, pair, take), 1);
}

static void fetch_bookings(struct core *core, const struct pair *pair)
{
	for (uint32_t take = 0; take <= pair->links; take++) {
		const struct resource *resource = resource_at(core, pair, take);
		__builtin_prefetch(resource->points, 1);
		__builtin_prefetch(&resource->spans[resource->count], 1);
	}
}

static void grant(struct core *core, uint32_t number, int64_t start)
{
	uint32_t at = new_booking(core);
	struct pair *pair = &core->pairs[number];
	struct booking *booking = &core->bookings[at];
	int64_t end = start + pair->length, reserved = pair->full;
	fetch_bookings(core, pair);
	if (pair->need < reserved)
		for (uint32_t take = 0; take < pair->links; take++) {
			struct resource *link = resource_at(core, pair, take);
			reserved = least(reserved, link->capacity - peak(link, start, end));
		}
	pair->granted = ++core->turns;
	pair->hurried = urgent(pair) ? pair->hurried + pair->length : 0;
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
	fetch_resources(core, pair);
	core->tries--;
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
