/* How much of a resource is booked at what time, as steps: so a question looks at instants, and not at each booking. What is over
 * stays until something else is booked there: no question is about the past. */
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

/* The point of an instant, which is new if nothing changes there yet. What is booked is mostly among the last. */
static uint32_t point_of(struct resource *resource, int64_t at)
{
	uint32_t place = resource->point_count;
	while (place && resource->points[place - 1].at > at)
		place--;
	if (place && resource->points[place - 1].at == at)
		return place - 1;
	GROW(resource->points, resource->point_room, resource->point_count + 1);
	struct point *points = resource->points;
	memmove(points + place + 1, points + place, (resource->point_count++ - place) * sizeof(*points));
	points[place] = (struct point){.at = at, .load = place ? points[place - 1].load : 0};
	return place;
}

/* Forgets a point at which nothing changes any more. */
static void merge(struct resource *resource, uint32_t place)
{
	struct point *points = resource->points;
	if (!points[place].releases && points[place].load == (place ? points[place - 1].load : 0))
		memmove(points + place, points + place + 1, (--resource->point_count - place) * sizeof(*points));
}

/* Adds an amount, or takes it away again if it is less than 0. What is before the first point is over. */
static void timeline_add(struct resource *resource, int64_t start, int64_t end, int64_t amount)
{
	bool over = amount < 0 && start < resource->points[0].at;
	uint32_t first = over ? 0 : point_of(resource, start), last = point_of(resource, end);
	for (uint32_t at = first; at < last; at++)
		resource->points[at].load += amount;
	merge(resource, last);
	merge(resource, first);
}

/* Forgets the points before the last one until now. */
static void trim(struct resource *resource, int64_t now)
{
	uint32_t over = 0;
	while (over + 1 < resource->point_count && resource->points[over + 1].at <= now)
		over++;
	if (!over)
		return;
	resource->point_count -= over;
	memmove(resource->points, resource->points + over, resource->point_count * sizeof(*resource->points));
}

/* What ends at that instant was foreseen, or (-1) is not booked any more. */
static void timeline_release(struct resource *resource, int64_t end, int32_t count)
{
	uint32_t place = point_of(resource, end);
	resource->points[place].releases += (uint32_t)count;
	merge(resource, place);
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
