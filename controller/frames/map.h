/* A map of numbers to places, by open addressing with linear probing (Knuth, volume 3, section 6.4, algorithms L and R), in parts that
 * grow one by one: a map of a million numbers that doubles takes 15 ms, one of its parts 0.1 to 0.3. */
#ifndef BATON_MAP_H
#define BATON_MAP_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE 0xffffffffu

enum { PART_BITS = 6, PARTS = 1 << PART_BITS };

struct part {
    uint64_t *keys;
    uint32_t *places; /* NOWHERE: free */
    uint32_t mask, used, most;
};

struct map {
    struct part parts[PARTS];
};

static inline uint32_t map_hash(uint64_t key) { return (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> 32); }

static inline struct part *map_part(const struct map *map, uint64_t key) {
    return (struct part *)&map->parts[map_hash(key) >> (32 - PART_BITS)];
}

/* Part `number` of a map grows when it is 3/8 to 5/8 full: keys are spread so evenly that else all would do so at once. */
static int part_make(struct part *part, uint32_t number, uint32_t size) {
    part->keys = malloc(size * (sizeof *part->keys + sizeof *part->places));
    part->mask = size - 1;
    part->used = 0;
    part->most = (uint32_t)((uint64_t)size * (3 * PARTS + 2 * number) / (8 * PARTS));
    if (!part->keys)
        return 0;
    part->places = (uint32_t *)&part->keys[size];
    memset(part->keys, 0, size * sizeof *part->keys); /* so that all pages are there: keys are strewn over them */
    memset(part->places, 0xff, size * sizeof *part->places);
    return 1;
}

static void map_free(struct map *map) {
    for (uint32_t number = 0; number < PARTS; number++)
        free(map->parts[number].keys);
}

/* `size`: a power of two, and at least four for each part. 0: no memory; the caller frees the map all the same. */
static int map_make(struct map *map, uint32_t size) {
    int made = 1;
    for (uint32_t number = 0; number < PARTS; number++)
        made &= part_make(&map->parts[number], number, size / PARTS);
    return made;
}

/* Where the key is, or the free cell where it belongs. */
static inline uint32_t part_cell(const struct part *part, uint64_t key) {
    uint32_t at = map_hash(key) & part->mask;
    while (part->places[at] != NOWHERE && part->keys[at] != key)
        at = (at + 1) & part->mask;
    return at;
}

static inline uint32_t map_get(const struct map *map, uint64_t key) {
    const struct part *part = map_part(map, key);
    return part->places[part_cell(part, key)];
}

static int part_grow(struct part *part, uint32_t number) {
    struct part larger;
    if (!part_make(&larger, number, 2 * (part->mask + 1)))
        return 0;
    for (uint32_t at = 0; at <= part->mask; at++)
        if (part->places[at] != NOWHERE) {
            uint32_t cell = part_cell(&larger, part->keys[at]);
            larger.keys[cell] = part->keys[at];
            larger.places[cell] = part->places[at];
        }
    larger.used = part->used;
    free(part->keys);
    *part = larger;
    return 1;
}

/* Adds a key that is not there. 0: no memory. */
static int map_put(struct map *map, uint64_t key, uint32_t place) {
    struct part *part = map_part(map, key);
    if (part->used >= part->most && !part_grow(part, (uint32_t)(part - map->parts)))
        return 0;
    uint32_t cell = part_cell(part, key);
    part->keys[cell] = key;
    part->places[cell] = place;
    part->used++;
    return 1;
}

/* A key that is in the map is at another place now. */
static void map_move(struct map *map, uint64_t key, uint32_t place) {
    struct part *part = map_part(map, key);
    part->places[part_cell(part, key)] = place;
}

static void map_drop(struct map *map, uint64_t key) {
    struct part *part = map_part(map, key);
    uint32_t hole = part_cell(part, key);
    if (part->places[hole] == NOWHERE)
        return;
    part->used--;
    for (uint32_t at = (hole + 1) & part->mask; part->places[at] != NOWHERE; at = (at + 1) & part->mask)
        if (((at - map_hash(part->keys[at])) & part->mask) >= ((at - hole) & part->mask)) {
            part->keys[hole] = part->keys[at];
            part->places[hole] = part->places[at];
            hole = at;
        }
    part->places[hole] = NOWHERE;
}

#endif
