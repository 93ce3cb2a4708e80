/* Growing arrays, a map from pairs of node ids to indexes, and heaps. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define LINE 64 /* of the processor's caches: what one line holds comes at once */
/* What the compiler does not see by itself: what is seldom, and what is worth its room where it is called. */
#define LIKELY(what) __builtin_expect(!!(what), 1)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define SELDOM static __attribute__((noinline, cold))

/* More room, for `wanted` elements. Without memory there is no schedule: hosts then open their gates by themselves. */
SELDOM void *enlarged(void *array, uint32_t *room, uint32_t wanted, size_t size)
{
	uint64_t more = *room + (uint64_t)*room / 2 + 16;
	if (more < wanted)
		more = wanted;
	if (more > UINT32_MAX / 2)
		abort();
	char *larger = aligned_alloc(LINE, (more * size + LINE - 1) / LINE * LINE);
	if (!larger)
		abort();
	if (array)
		memcpy(larger, array, *room * size);
	memset(larger + *room * size, 0, (more - *room) * size);
	free(array);
	*room = (uint32_t)more;
	return larger;
}

static inline void *grown(void *array, uint32_t *room, uint32_t wanted, size_t size)
{
	return LIKELY(wanted <= *room) ? array : enlarged(array, room, wanted, size);
}

#define GROW(array, room, wanted) ((array) = grown((array), &(room), (wanted), sizeof(*(array))))

/* -- a map by open addressing: a key that is gone leaves no trace, for what lies behind it moves up ---------------------- */

struct mapped {
	uint64_t key;
	uint32_t value; /* NONE: free */
};

struct map {
	struct mapped *items;
	uint32_t room, count;
};

static inline uint32_t map_place(const struct map *map, uint64_t key)
{
	uint64_t hash = key * 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash >> 32) & (map->room - 1);
}

static inline void map_prefetch(const struct map *map, uint64_t key)
{
	if (map->room)
		__builtin_prefetch(&map->items[map_place(map, key)], 1);
}

static inline uint32_t map_get(const struct map *map, uint64_t key)
{
	if (!map->count)
		return NONE;
	for (uint32_t at = map_place(map, key); map->items[at].value != NONE; at = (at + 1) & (map->room - 1))
		if (map->items[at].key == key)
			return map->items[at].value;
	return NONE;
}

static inline void map_store(struct map *map, uint64_t key, uint32_t value)
{
	uint32_t at = map_place(map, key);
	while (map->items[at].value != NONE && map->items[at].key != key)
		at = (at + 1) & (map->room - 1);
	map->count += map->items[at].value == NONE;
	map->items[at] = (struct mapped){key, value};
}

static inline void map_free(struct map *map)
{
	free(map->items);
	memset(map, 0, sizeof(*map));
}

SELDOM void map_enlarge(struct map *map)
{
	struct map larger = {.room = map->room ? 2 * map->room : 64};
	larger.items = malloc(larger.room * sizeof(*larger.items));
	if (!larger.items)
		abort();
	memset(larger.items, 0xff, larger.room * sizeof(*larger.items));
	for (uint32_t at = 0; at < map->room; at++)
		if (map->items[at].value != NONE)
			map_store(&larger, map->items[at].key, map->items[at].value);
	map_free(map);
	*map = larger;
}

static inline void map_set(struct map *map, uint64_t key, uint32_t value)
{
	if (!LIKELY(4 * (map->count + 1) <= map->room)) /* where more is full, whether the next place is free is predicted wrong */
		map_enlarge(map);
	map_store(map, key, value);
}

static inline void map_remove(struct map *map, uint64_t key)
{
	if (!map->count)
		return;
	uint32_t mask = map->room - 1, hole = map_place(map, key);
	while (map->items[hole].key != key && map->items[hole].value != NONE)
		hole = (hole + 1) & mask;
	if (map->items[hole].value == NONE)
		return;
	for (uint32_t at = (hole + 1) & mask; map->items[at].value != NONE; at = (at + 1) & mask) {
		uint32_t home = map_place(map, map->items[at].key);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			map->items[hole] = map->items[at];
			hole = at;
		}
	}
	map->items[hole].value = NONE;
	map->count--;
}

/* -- a binary heap of TYPE, the least by BEFORE(a, b) first: NAME_push, NAME_pop ------------------------------------------ */

#define HEAP(NAME, TYPE, BEFORE)                                                                                        \
	struct NAME {                                                                                                   \
		TYPE *items;                                                                                            \
		uint32_t count, room;                                                                                   \
	};                                                                                                              \
	static inline void NAME##_push(struct NAME *heap, TYPE item)                                                    \
	{                                                                                                               \
		GROW(heap->items, heap->room, heap->count + 1);                                                         \
		uint32_t at = heap->count++;                                                                            \
		while (at && BEFORE(item, heap->items[(at - 1) / 2])) {                                                 \
			heap->items[at] = heap->items[(at - 1) / 2];                                                    \
			at = (at - 1) / 2;                                                                              \
		}                                                                                                       \
		heap->items[at] = item;                                                                                 \
	}                                                                                                               \
	static inline TYPE NAME##_pop(struct NAME *heap)                                                                \
	{                                                                                                               \
		TYPE *items = heap->items, first = items[0], last = items[--heap->count];                               \
		uint32_t at = 0, below;                                                                                 \
		while ((below = 2 * at + 1) < heap->count) {                                                            \
			if (below + 1 < heap->count && BEFORE(items[below + 1], items[below]))                          \
				below++;                                                                                \
			if (!BEFORE(items[below], last))                                                                \
				break;                                                                                  \
			items[at] = items[below];                                                                       \
			at = below;                                                                                     \
		}                                                                                                       \
		items[at] = last;                                                                                       \
		return first;                                                                                           \
	}
