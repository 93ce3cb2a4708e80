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
		resource->spans[resource->count++] = (struct span){booking->start, booking->end, amount, number, take};
		if (booking->released) {
			resource->settled = most(resource->settled, booking->end);
		} else {
			resource->reserved += amount;
			resource->settled = most(resource->settled, booking->start);
		}
	}
}

static void release(struct core *core, struct booking *booking)
{
	const struct pair *pair = &core->pairs[booking->pair];
	booking->released = true;
	for (uint32_t take = 0; take <= pair->links; take++) {
		struct resource *resource = resource_at(core, pair, take);
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

static int by_time(const void *a, const void *b)
{
	const struct change *one = a, *other = b;
	if (one->at != other->at)
		return one->at < other->at ? -1 : 1;
	return (one->amount > other->amount) - (one->amount < other->amount);
}

static int by_value(const void *a, const void *b)
{
	return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
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
	qsort(core->changes, count, sizeof(*core->changes), by_time);
	int64_t highest = load;
	for (uint32_t at = 0; at < count; at++) {
		load += core->changes[at].amount;
		highest = most(highest, load);
	}
	return highest;
}

/* Whether an amount fits beside all that is booked. Most questions are answered by sums, without the order of the changes. */
static bool has_room(struct core *core, const struct resource *resource, int64_t start, int64_t end, int64_t amount)
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
	if (load + amount > resource->capacity)
		return false;
	return load + rising + amount <= resource->capacity || peak(core, resource, start, end) + amount <= resource->capacity;
}

/* Beyond the frontier `reserved` is the load. */
static inline bool has_room_ahead(struct core *core, const struct resource *resource, int64_t start, int64_t end, int64_t amount)
{
	if (start >= resource->settled)
		return resource->reserved + amount <= resource->capacity;
	return has_room(core, resource, start, end, amount);
}

static bool fits(struct core *core, const struct pair *pair, int64_t start, int64_t end, int64_t amount)
{
	for (uint32_t take = 0; take <= pair->links; take++)
		if (!has_room(core, resource_at(core, pair, take), start, end, take == pair->links ? 1 : amount))
			return false;
	return true;
}

/* Collects the ends after an instant of what is booked on a pair's resources, in order; of released bookings alone on request. */
static void collect_ends(struct core *core, const struct pair *pair, int64_t after, bool released)
{
	core->time_count = 0;
	for (uint32_t take = 0; take <= pair->links; take++) {
		const struct resource *resource = resource_at(core, pair, take);
		GROW(core->times, core->time_room, core->time_count + resource->count);
		for (uint32_t at = 0; at < resource->count; at++) {
			const struct span *span = &resource->spans[at];
			if (span->end > after && (!released || core->bookings[span->booking].released))
				core->times[core->time_count++] = span->end;
		}
	}
	if (!core->time_count)
		return;
	qsort(core->times, core->time_count, sizeof(*core->times), by_value);
	uint32_t kept = 1;
	for (uint32_t at = 1; at < core->time_count; at++)
		if (core->times[at] != core->times[at - 1])
			core->times[kept++] = core->times[at];
	core->time_count = kept;
}
