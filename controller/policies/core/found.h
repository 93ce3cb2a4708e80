/* A network's links and the places of pairs in it, as they were found before it begins (places.py). Known to ctypes as
 * `FoundPlaces`. */
#pragma once
#include <stdint.h>

#define ROWS_AHEAD 8 /* so many places ahead what the next ones need is fetched */

struct found {
	const uint32_t *nodes, *destinations, *offsets;
	uint32_t *links; /* pair i crosses links[offsets[i]] and on, numbered from 0 on */
	const int64_t *rates, *capacities;
	uint32_t count, link_count;
	uint32_t first; /* the number of the first link, where `link_count` is 0: its links are known already */
};

/* The links are numbered from `first` on. */
static inline void number_links(struct found *found, uint32_t first)
{
	for (uint32_t at = found->offsets[0]; at < found->offsets[found->count]; at++)
		found->links[at] += first;
}
