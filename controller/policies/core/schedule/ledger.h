/* Bookings of links and hosts on a common timeline; see controller/policies/ledger.py, which says what each function does. */
#pragma once
#include "timeline.h"

static inline int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline struct resource *resource_at(struct core *core, const struct pair *pair, uint32_t take)
{
	if (take == pair->links)
		return &core->resources[core->nodes[pair->node].resource];
	return &core->resources[core->links[(pair - core->pairs) * core->links_most + take]];
}

static uint32_t new_resource(struct core *core, int64_t capacity)
{
	GROW(core->resources, core->resource_room, core->resource_count + 1);
	struct resource *resource = &core->resources[core->resource_count];
	struct resource before = *resource; /* what it has room for is that of a resource of the network before */
	*resource = (struct resource){
		.capacity = capacity, .lines = NONE, .spans = before.spans, .room = before.room,
		.points = before.points, .point_room = before.point_room,
	};
	return core->resource_count++;
}

/* Leaves the spans of what is booked. */
static void sweep(const struct core *core, struct resource *resource)
{
	uint32_t count = 0;
	for (uint32_t at = 0; at < resource->count; at++) {
		resource->spans[count] = resource->spans[at];
		count += core->bookings[resource->spans[at].booking].stamp == resource->spans[at].stamp;
	}
	resource->count = count;
}

static void add_span(const struct core *core, struct resource *resource, uint32_t booking)
{
	if (resource->count == resource->room) {
		sweep(core, resource);
		if (2 * resource->count >= resource->room)
			GROW(resource->spans, resource->room, resource->room + 1);
	}
	resource->spans[resource->count++] = (struct span){booking, core->bookings[booking].stamp};
}

static void book(struct core *core, uint32_t number)
{
	struct booking *booking = &core->bookings[number];
	const struct pair *pair = &core->pairs[booking->pair];
	booking->stamp++;
	for (uint32_t take = 0; take <= pair->links; take++) {
		struct resource *resource = resource_at(core, pair, take);
		int64_t amount = take == pair->links ? 1 : booking->amount;
		add_span(core, resource, number);
		trim(resource, core->now);
		timeline_add(resource, booking->start, booking->end, amount);
		if (booking->released) {
			timeline_release(resource, booking->end, 1);
			resource->settled = most(resource->settled, booking->end);
		} else {
			resource->reserved += amount;
			resource->settled = most(resource->settled, booking->start);
		}
	}
}

static void release(struct core *core, uint32_t number)
{
	struct booking *booking = &core->bookings[number];
	const struct pair *pair = &core->pairs[booking->pair];
	booking->released = true;
	for (uint32_t take = 0; take <= pair->links; take++) {
		struct resource *resource = resource_at(core, pair, take);
		timeline_release(resource, booking->end, 1);
		resource->reserved -= take == pair->links ? 1 : booking->amount;
		resource->settled = most(resource->settled, booking->end);
	}
}

static void unbook(struct core *core, uint32_t number)
{
	struct booking *booking = &core->bookings[number];
	const struct pair *pair = &core->pairs[booking->pair];
	if (!(booking->stamp & 1))
		return;
	booking->stamp++;
	for (uint32_t take = 0; take <= pair->links; take++) {
		struct resource *resource = resource_at(core, pair, take);
		int64_t amount = take == pair->links ? 1 : booking->amount;
		if (!booking->released)
			resource->reserved -= amount;
		timeline_add(resource, booking->start, booking->end, -amount);
		if (booking->released)
			timeline_release(resource, booking->end, -1);
	}
}

static bool has_room(const struct resource *resource, int64_t start, int64_t end, int64_t amount)
{
	int64_t next;
	return has_room_or_next(resource, start, end, amount, &next);
}

/* Whether an amount fits; beyond the frontier `reserved` is the load. Else *next is the first instant from which it may, as far
 * as what is booked says. */
static inline bool has_room_ahead(const struct resource *resource, int64_t start, int64_t end, int64_t amount, int64_t *next)
{
	if (start < resource->settled)
		return has_room_or_next(resource, start, end, amount, next);
	*next = INT64_MAX;
	return resource->reserved + amount <= resource->capacity;
}

static bool fits(struct core *core, const struct pair *pair, int64_t start, int64_t end, int64_t amount)
{
	for (uint32_t take = 0; take <= pair->links; take++)
		if (!has_room(resource_at(core, pair, take), start, end, take == pair->links ? 1 : amount))
			return false;
	return true;
}

/* The first time from `start` on, and before a limit, from which an amount fits on all resources of a pair for a length; or the
 * limit. Where it does not fit on one of them, it does not before something ends there. */
static int64_t earliest(struct core *core, const struct pair *pair, int64_t start, int64_t length, int64_t amount, int64_t limit)
{
	uint32_t fitting = 0; /* resources, one after the other, on which it fits at `start`, the host first */
	for (uint32_t take = pair->links; fitting <= pair->links && start < limit; take = take ? take - 1 : pair->links) {
		struct resource *resource = resource_at(core, pair, take);
		int64_t need = take == pair->links ? 1 : amount, next;
		fitting++;
		while (start < limit && !has_room_or_next(resource, start, start + length, need, &next)) {
			start = next;
			fitting = 1;
		}
	}
	return least(start, limit);
}

/* The first end from an instant on, on any of a pair's resources, of a booking whose end was foreseen; INT64_MAX: there is none. */
static int64_t next_release(struct core *core, const struct pair *pair, int64_t from)
{
	int64_t first = INT64_MAX;
	for (uint32_t take = 0; take <= pair->links; take++)
		first = least(first, first_release(resource_at(core, pair, take), from));
	return first;
}

/* The last such end, if it is after an instant; else the instant. */
static int64_t newest_release(struct core *core, const struct pair *pair, int64_t after)
{
	for (uint32_t take = 0; take <= pair->links; take++)
		after = last_release(resource_at(core, pair, take), after);
	return after;
}
