/* What the loop tells Python of what it did: records, one after the other, in one of two buffers. Python takes one whole while
 * the other one is filled (controller/frames/told.py reads them). */
#ifndef BATON_TOLD_H
#define BATON_TOLD_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Frames for Python take a part of a buffer, some tenths of a second of its work; when that is full, more are lost, as they
 * would be where a socket is full. So what Python has no time for does not keep what the loop takes by itself waiting. */
enum { TOLD_ROOM = 4 << 20, TOLD_SPARE = 1 << 20, TOLD_FRAMES = 1 << 20, TOLD_USUAL = 256 << 10 };
enum told_kind { TOLD_BATCH = 1, TOLD_FRAME, TOLD_PLAN, TOLD_PROVEN };

/* Each record begins with its kind and its size, a multiple of 8, and goes on with its arrays, those of 8 bytes first. */
struct told_batch {
    uint32_t kind, bytes, accepted, yields, opened, entries, backlogs, delayed;
    int64_t now_ns;
};

/* As TOLD_FRAME, or as TOLD_PROVEN. */
struct told_frame {
    uint32_t kind, bytes, size, box;
    int64_t now_ns, stamp_ns;
};

struct told_plan {
    uint32_t kind, bytes, revoked, granted, others, others_revoked, left_out, spare;
    int64_t now_ns;
};

struct told {
    uint8_t *buffers[2];
    uint32_t filling, used, frames; /* bytes that are filled, and those of them that are frames */
    int64_t since_ns; /* of the first record */
};

static int told_make(struct told *told) {
    memset(told, 0, sizeof *told);
    for (int at = 0; at < 2; at++) {
        if (!(told->buffers[at] = malloc(TOLD_ROOM)))
            return 0;
        memset(told->buffers[at], 0, TOLD_USUAL); /* so that these pages are there */
    }
    return 1;
}

static void told_free(struct told *told) {
    free(told->buffers[0]);
    free(told->buffers[1]);
}

/* Whether any batch, or frame, has room. A plan that has none is told without its slots. */
static inline int told_has_room(const struct told *told) { return told->used <= TOLD_ROOM - TOLD_SPARE; }

static inline uint8_t *told_end(struct told *told) { return told->buffers[told->filling] + told->used; }

static inline uint8_t *told_put(uint8_t *at, const void *from, size_t size) {
    if (size)
        memcpy(at, from, size);
    return at + size;
}

/* Ends the record that begins at the end of the buffer, and whose bytes reach to `end`. */
static void told_close(struct told *told, uint8_t *end, int64_t now_ns) {
    uint8_t *begin = told_end(told);
    uint32_t size = (uint32_t)(end - begin), whole = (size + 7) & ~7u;
    memset(end, 0, whole - size);
    memcpy(begin + 4, &whole, sizeof whole);
    if (!told->used)
        told->since_ns = now_ns;
    told->used += whole;
}

#endif
