/* Growing arrays, a map from pairs of node ids to indexes, and heaps. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
#define LINE 64 /* of the processor's caches: what one line holds comes at once */
/* What the compiler does not see by itself: what is seldom, and what is worth its room where it is called. */
#define LIKELY(what) __builtin_expect(!!(what), 1)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define SELDOM static __attribute__((noinline, cold))

/* The line before a growing array says how much address space is kept for it; 0: its memory is of the heap. A large array is
 * mapped. It grows where it is, and gets its new pages one by one when they are used: to move megabytes, or to clear them all at
 * once, takes milliseconds. */
struct origin {
	size_t kept;
};

#ifdef __SANITIZE_ADDRESS__
#define MAPPED_FROM SIZE_MAX /* only the heap is watched */
#else
#define MAPPED_FROM (64 << 10)
#endif
#define KEPT (64 << 20)

static inline struct origin *origin_of(void *array)
{
	return (struct origin *)((char *)array - LINE);
}

static inline void array_free(void *array)
{
	if (!array)
		return;
	if (origin_of(array)->kept)
		munmap(origin_of(array), origin_of(array)->kept);
	else
		free(origin_of(array));
}

/* Zeroed memory, with a line for its origin. */
SELDOM struct origin *new_memory(size_t all)
{
	size_t kept = all < KEPT ? KEPT : 2 * all;
	struct origin *memory = MAP_FAILED;
	if (all >= MAPPED_FROM)
		memory = mmap(NULL, kept, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory != MAP_FAILED && !mprotect(memory, all, PROT_READ | PROT_WRITE)) {
		memory->kept = kept;
		return memory;
	}
	if (memory != MAP_FAILED)
		munmap(memory, kept);
	memory = aligned_alloc(LINE, (all + LINE - 1) / LINE * LINE);
	if (!memory)
		abort();
	return memset(memory, 0, all);
}

/* More room, for `wanted` elements. Without memory there is no schedule: hosts then open their gates by themselves. */
SELDOM void *enlarged(void *array, uint32_t *room, uint32_t wanted, size_t size)
{
	uint64_t more = *room + (uint64_t)*room / 2 + 16;
	if (more < wanted)
		more = wanted;
	if (more > UINT32_MAX / 2)
		abort();
	size_t before = *room * size, all = LINE + more * size;
	*room = (uint32_t)more;
	if (array && origin_of(array)->kept >= all) {
		if (mprotect(origin_of(array), all, PROT_READ | PROT_WRITE))
			abort();
		return array;
	}
	char *larger = (char *)new_memory(all) + LINE;
	if (array)
		memcpy(larger, array, before);
	array_free(array);
	return larger;
}

static inline void *grown(void *array, uint32_t *room, uint32_t wanted, size_t size)
{
	return LIKELY(wanted <= *room) ? array : enlarged(array, room, wanted, size);
}

#define GROW(array, room, wanted) ((array) = grown((array), &(room), (wanted), sizeof(*(array))))

/* As many nodes, or pairs that wait, as most fabrics have at most: there is room for them from the beginning. */
#define MANY (1 << 13)

/* Has all pages there: a new one costs who uses it first 1.5 us. MAP_POPULATE brings none where memory is locked when it is used
 * (MCL_ONFAULT). A kernel before 5.14 brings them one by one. */
static inline void bring_pages(void *memory, size_t size)
{
	madvise(memory, size, MADV_POPULATE_WRITE);
}

static inline void *provided(void *array, uint32_t *room, uint32_t wanted, size_t size)
{
	array = grown(array, room, wanted, size);
	if (origin_of(array)->kept)
		bring_pages(origin_of(array), LINE + *room * size);
	return array;
}

/* Makes room from the beginning, with all its pages. */
#define PROVIDE(array, room, wanted) ((array) = provided((array), &(room), (wanted), sizeof(*(array))))

/* -- a map by open addressing: a key that is gone leaves no trace, for what lies behind it moves up ---------------------- */

struct mapped {
	uint64_t key;
	uint32_t value, taken;
};

struct map {
	struct mapped *items; /* pages of its own, which come all at once: entries are strewn over them */
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
	for (uint32_t at = map_place(map, key); map->items[at].taken; at = (at + 1) & (map->room - 1))
		if (map->items[at].key == key)
			return map->items[at].value;
	return NONE;
}

static inline void map_store(struct map *map, uint64_t key, uint32_t value)
{
	uint32_t at = map_place(map, key);
	while (map->items[at].taken && map->items[at].key != key)
		at = (at + 1) & (map->room - 1);
	map->count += !map->items[at].taken;
	map->items[at] = (struct mapped){key, value, 1};
}

static inline void map_free(struct map *map)
{
	if (map->room)
		munmap(map->items, map->room * sizeof(*map->items));
	memset(map, 0, sizeof(*map));
}

SELDOM void map_enlarge(struct map *map, uint32_t room)
{
	struct map larger = {.room = room};
	larger.items = mmap(NULL, room * sizeof(*larger.items), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (larger.items == MAP_FAILED)
		abort();
	madvise(larger.items, room * sizeof(*larger.items), MADV_HUGEPAGE); /* of 2 MB: 0.1 ms each, and 512 of 4 KB take 1 to 2 ms */
	bring_pages(larger.items, room * sizeof(*larger.items));
	for (uint32_t at = 0; at < map->room; at++)
		if (map->items[at].taken)
			map_store(&larger, map->items[at].key, map->items[at].value);
	map_free(map);
	*map = larger;
}

static inline void map_set(struct map *map, uint64_t key, uint32_t value)
{
	if (!LIKELY(4 * (map->count + 1) <= map->room)) /* where more is full, whether the next place is free is predicted wrong */
		map_enlarge(map, map->room ? 2 * map->room : 256);
	map_store(map, key, value);
}

/* Room for MANY entries from the beginning, so that a map that is in use is seldom made anew. More room would cost each look: what is
 * empty takes a place in the processor's caches, too. */
static inline void map_begin(struct map *map)
{
	map_enlarge(map, 4 * MANY);
}

static inline void map_remove(struct map *map, uint64_t key)
{
	if (!map->count)
		return;
	uint32_t mask = map->room - 1, hole = map_place(map, key);
	while (map->items[hole].key != key && map->items[hole].taken)
		hole = (hole + 1) & mask;
	if (!map->items[hole].taken)
		return;
	for (uint32_t at = (hole + 1) & mask; map->items[at].taken; at = (at + 1) & mask) {
		uint32_t home = map_place(map, map->items[at].key);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			map->items[hole] = map->items[at];
			hole = at;
		}
	}
	map->items[hole].taken = 0;
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
