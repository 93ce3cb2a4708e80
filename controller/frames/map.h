/* A map of numbers to places, by open addressing with linear probing (Knuth, volume 3, section 6.4, algorithms L and R). */
#ifndef BATON_MAP_H
#define BATON_MAP_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE 0xffffffffu

struct map {
    uint64_t *keys;
    uint32_t *places; /* NOWHERE: free */
    uint32_t mask, used;
};

static inline uint32_t map_start(const struct map *map, uint64_t key) {
    return (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> 32) & map->mask;
}

static int map_make(struct map *map, uint32_t size) {
    map->keys = malloc(size * sizeof *map->keys);
    map->places = malloc(size * sizeof *map->places);
    map->mask = size - 1;
    map->used = 0;
    if (!map->keys || !map->places) {
        free(map->keys);
        free(map->places);
        return 0;
    }
    memset(map->keys, 0, size * sizeof *map->keys); /* so that all pages are there: keys are strewn over them */
    memset(map->places, 0xff, size * sizeof *map->places);
    return 1;
}

static void map_free(struct map *map) {
    free(map->keys);
    free(map->places);
}

/* Where the key is, or the free cell where it belongs. */
static inline uint32_t map_cell(const struct map *map, uint64_t key) {
    uint32_t at = map_start(map, key);
    while (map->places[at] != NOWHERE && map->keys[at] != key)
        at = (at + 1) & map->mask;
    return at;
}

static inline uint32_t map_get(const struct map *map, uint64_t key) { return map->places[map_cell(map, key)]; }

/* Adds a key that is not there. 0: no memory. */
static int map_put(struct map *map, uint64_t key, uint32_t place) {
    if (2 * map->used > map->mask) {
        struct map larger;
        if (!map_make(&larger, 2 * (map->mask + 1)))
            return 0;
        for (uint32_t at = 0; at <= map->mask; at++)
            if (map->places[at] != NOWHERE) {
                uint32_t cell = map_cell(&larger, map->keys[at]);
                larger.keys[cell] = map->keys[at];
                larger.places[cell] = map->places[at];
            }
        larger.used = map->used;
        map_free(map);
        *map = larger;
    }
    uint32_t cell = map_cell(map, key);
    map->keys[cell] = key;
    map->places[cell] = place;
    map->used++;
    return 1;
}

static void map_drop(struct map *map, uint64_t key) {
    uint32_t hole = map_cell(map, key);
    if (map->places[hole] == NOWHERE)
        return;
    map->used--;
    for (uint32_t at = (hole + 1) & map->mask; map->places[at] != NOWHERE; at = (at + 1) & map->mask)
        if (((at - map_start(map, map->keys[at])) & map->mask) >= ((at - hole) & map->mask)) {
            map->keys[hole] = map->keys[at];
            map->places[hole] = map->places[at];
            hole = at;
        }
    map->places[hole] = NOWHERE;
}

#endif
