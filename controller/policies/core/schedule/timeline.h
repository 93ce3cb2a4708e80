/* How much of a resource is booked at what time, as steps: so a question looks at instants, and not at each booking. */
#pragma once
#include "state.h"

/* The first point after an instant. */
static inline uint32_t point_after(const struct resource *resource, int64_t at)
{
	const struct point *points = resource->points;
	uint32_t first = 0, count = resource->point_count;
	while (count) {
		uint32_t half = count / 2;
		bool later = points[first + half].at <= at;
		first = later ? first + half + 1 : first;
		count = later ? count - half - 1 : half;
	}
	return first;
}

/* The point of an instant, which is new if nothing begins or ends there yet. */
static uint32_t point_of(struct resource *resource, int64_t at)
{
	uint32_t place = point_after(resource, at);
	if (place && resource->points[place - 1].at == at)
		return place - 1;
	GROW(resource->points, resource->point_room, resource->point_count + 1);
	struct point *points = resource->points;
	memmove(points + place + 1, points + place, (resource->point_count++ - place) * sizeof(*points));
	points[place] = (struct point){.at = at, .load = place ? points[place - 1].load : 0};
	return place;
}

static void leave_point(struct resource *resource, uint32_t place)
{
	struct point *points = resource->points;
	if (!--points[place].spans)
		memmove(points + place, points + place + 1, (--resource->point_count - place) * sizeof(*points));
}

static void timeline_add(struct resource *resource, int64_t start, int64_t end, int64_t amount)
{
	uint32_t first = point_of(resource, start), last = point_of(resource, end);
	resource->points[first].spans++;
	resource->points[last].spans++;
	for (uint32_t at = first; at < last; at++)
		resource->points[at].load += amount;
}

static void timeline_remove(struct resource *resource, int64_t start, int64_t end, int64_t amount, bool released)
{
	uint32_t first = point_after(resource, start) - 1, last = point_after(resource, end) - 1;
	for (uint32_t at = first; at < last; at++)
		resource->points[at].load -= amount;
	resource->points[last].releases -= released;
	leave_point(resource, last);
	leave_point(resource, first);
}

/* What ends at that instant was foreseen. */
static void timeline_release(struct resource *resource, int64_t end)
{
	resource->points[point_after(resource, end) - 1].releases++;
}

/* The most that is booked at any instant of [start, end). */
static int64_t peak(const struct resource *resource, int64_t start, int64_t end)
{
	uint32_t at = point_after(resource, start);
	int64_t highest = at ? resource->points[at - 1].load : 0;
	for (; at < resource->point_count && resource->points[at].at < end; at++)
		highest = resource->points[at].load > highest ? resource->points[at].load : highest;
	return highest;
}

/* Whether an amount fits beside all that is booked; else *next is the first instant after the start from which it may: what is
 * in its way is over then, and was not before. */
static inline bool has_room_or_next(const struct resource *resource, int64_t start, int64_t end, int64_t amount, int64_t *next)
{
	int64_t room = resource->capacity - amount;
	if (resource->booked <= room)
		return true;
	const struct point *points = resource->points;
	uint32_t at = point_after(resource, start), count = resource->point_count;
	bool fits = (at ? points[at - 1].load : 0) <= room;
	for (; fits && at < count && points[at].at < end; at++)
		fits = points[at].load <= room;
	if (fits)
		return true;
	while (at < count && points[at].load > room)
		at++;
	*next = at < count ? points[at].at : INT64_MAX;
	return false;
}

/* The first end from an instant on of something whose end was foreseen; INT64_MAX: there is none. */
static inline int64_t first_release(const struct resource *resource, int64_t from)
{
	if (resource->settled < from)
		return INT64_MAX;
	for (uint32_t at = point_after(resource, from - 1); at < resource->point_count; at++)
		if (resource->points[at].releases)
			return resource->points[at].at;
	return INT64_MAX;
}

/* The last such end, if it is after an instant; else the instant. */
static inline int64_t last_release(const struct resource *resource, int64_t after)
{
	if (resource->settled <= after)
		return after;
	for (uint32_t at = resource->point_count; at && resource->points[at - 1].at > after; at--)
		if (resource->points[at - 1].releases)
			return resource->points[at - 1].at;
	return after;
}
