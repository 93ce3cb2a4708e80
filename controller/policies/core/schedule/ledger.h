/* Bookings of links and hosts on a common timeline; see controller/policies/ledger.py, which says what each function does. */
#pragma once
#include "state.h"

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

static inline uint32_t *positions_of(struct core *core, uint32_t booking)
{
	return core->positions + (size_t)booking * (core->links_most + 1);
}

static uint32_t new_resource(struct core *core, int64_t capacity, bool ordered)
{
	GROW(core->resources, core->resource_room, core->resource_count + 1);
	struct resource *resource = &core->resources[core->resource_count];
	struct span *spans = resource->spans; /* of a resource of the network before */
	uint32_t room = resource->room;
	*resource = (struct resource){.capacity = capacity, .lines = NONE, .ordered = ordered, .spans = spans, .room = room};
	return core->resource_count++;
}

static void book(struct core *core, uint32_t number)
{
	struct booking *booking = &core->bookings[number];
	const struct pair *pair = &core->pairs[booking->pair];
	uint32_t *positions = positions_of(core, number);
	for (uint32_t take = 0; take <= pair->links; take++) {
		struct resource *resource = resource_at(core, pair, take);
		int64_t amount = take == pair->links ? 1 : booking->amount;
		GROW(resource->spans, resource->room, resource->count + 1);
		positions[take] = resource->count;
		resource->spans[resource->count++] =
			(struct span){booking->start, booking->end, amount, number, take, booking->released};
		resource->booked += amount;
		if (booking->released) {
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
	const uint32_t *positions = positions_of(core, number);
	booking->released = true;
	for (uint32_t take = 0; take <= pair->links; take++) {
		struct resource *resource = resource_at(core, pair, take);
		resource->spans[positions[take]].released = true;
		resource->reserved -= take == pair->links ? 1 : booking->amount;
		resource->settled = most(resource->settled, booking->end);
	}
}

static void move_span(struct core *core, struct resource *resource, uint32_t from, uint32_t to)
{
	resource->spans[to] = resource->spans[from];
	positions_of(core, resource->spans[to].booking)[resource->spans[to].take] = to;
}

static void unbook(struct core *core, uint32_t number)
{
	const struct booking *booking = &core->bookings[number];
	const struct pair *pair = &core->pairs[booking->pair];
	uint32_t *positions = positions_of(core, number);
	for (uint32_t take = 0; take <= pair->links; take++) {
		uint32_t at = positions[take];
		if (at == NONE)
			continue;
		struct resource *resource = resource_at(core, pair, take);
		resource->booked -= resource->spans[at].amount;
		if (!booking->released)
			resource->reserved -= resource->spans[at].amount;
		resource->count--;
		if (resource->ordered)
			for (; at < resource->count; at++)
				move_span(core, resource, at + 1, at);
		else if (at < resource->count)
			move_span(core, resource, resource->count, at);
		positions[take] = NONE;
	}
}

/* Sorts by time, and at one instant what ends before what begins. Mostly few changes. */
static void sort_changes(struct change *changes, uint32_t count)
{
	for (uint32_t gap = count > 32 ? count / 3 : 1; gap; gap = gap > 3 ? gap / 3 : gap - 1 ? 1 : 0)
		for (uint32_t one = gap; one < count; one++) {
			struct change change = changes[one];
			uint32_t at = one;
			for (; at >= gap; at -= gap) {
				const struct change *before = &changes[at - gap];
				if (before->at < change.at || (before->at == change.at && before->amount <= change.amount))
					break;
				changes[at] = *before;
			}
			changes[at] = change;
		}
}

static int64_t peak(struct core *core, const struct resource *resource, int64_t start, int64_t end)
{
	int64_t load = 0, rising = 0;
	for (uint32_t at = 0; at < resource->count; at++) {
		const struct span *span = &resource->spans[at];
		if (span->end <= start || span->start >= end)
			continue;
		if (span->start > start)
			rising += span->amount;
		else
			load += span->amount;
	}
	if (!rising)
		return load;
	uint32_t count = 0;
	GROW(core->changes, core->change_room, 2 * resource->count);
	for (uint32_t at = 0; at < resource->count; at++) {
		const struct span *span = &resource->spans[at];
		if (span->end <= start || span->start >= end)
			continue;
		core->changes[count++] = (struct change){span->end, -span->amount};
		if (span->start > start)
			core->changes[count++] = (struct change){span->start, span->amount};
	}
	sort_changes(core->changes, count);
	int64_t highest = load;
	for (uint32_t at = 0; at < count; at++) {
		load += core->changes[at].amount;
		highest = most(highest, load);
	}
	return highest;
}

/* Whether an amount fits beside all that is booked; else *next is the first end after the start. Most questions are answered by
 * sums. */
static bool has_room_or_next(const struct resource *resource, int64_t start, int64_t end, int64_t amount, int64_t *next)
{
	if (resource->booked + amount <= resource->capacity)
		return true;
	int64_t load = 0, rising = 0, first = INT64_MAX;
	for (uint32_t at = 0; at < resource->count; at++) {
		const struct span *span = &resource->spans[at];
		if (span->end <= start)
			continue;
		first = least(first, span->end);
		if (span->start >= end)
			continue;
		if (span->start > start)
			rising += span->amount;
		else
			load += span->amount;
	}
	*next = first;
	if (load + amount > resource->capacity)
		return false;
	if (load + rising + amount <= resource->capacity)
		return true;
	/* Only where a span begins the load rises. */
	int64_t known = start;
	for (uint32_t one = 0; one < resource->count; one++) {
		int64_t begins = resource->spans[one].start;
		if (begins <= start || begins >= end || begins == known)
			continue;
		known = begins;
		load = amount;
		for (uint32_t at = 0; at < resource->count; at++) {
			const struct span *span = &resource->spans[at];
			load += span->start <= begins && span->end > begins ? span->amount : 0;
		}
		if (load > resource->capacity)
			return false;
	}
	return true;
}

static bool has_room(const struct resource *resource, int64_t start, int64_t end, int64_t amount)
{
	int64_t next;
	return has_room_or_next(resource, start, end, amount, &next);
}

/* Beyond the frontier `reserved` is the load. */
static inline bool has_room_ahead(const struct resource *resource, int64_t start, int64_t end, int64_t amount)
{
	if (start >= resource->settled)
		return resource->reserved + amount <= resource->capacity;
	return has_room(resource, start, end, amount);
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

/* The first end after an instant of a released booking on a pair's resources; INT64_MAX: there is none. */
static int64_t next_release(struct core *core, const struct pair *pair, int64_t after)
{
	int64_t first = INT64_MAX;
	for (uint32_t take = 0; take <= pair->links; take++) {
		const struct resource *resource = resource_at(core, pair, take);
		for (uint32_t at = 0; at < resource->count && resource->settled > after; at++) {
			const struct span *span = &resource->spans[at];
			if (span->released && span->end > after)
				first = least(first, span->end);
		}
	}
	return first;
}
