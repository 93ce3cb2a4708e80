/* The tags of several frames at once (blake2s.h): a lane of a vector for each, since one alone leaves most of the processor idle. */
#ifndef BATON_BLAKE2S_LANES_H
#define BATON_BLAKE2S_LANES_H
#include "blake2s.h"

#define BLAKE2S_LANES 8

typedef uint32_t blake2s_vector __attribute__((vector_size(4 * BLAKE2S_LANES)));

/* A frame and its tag, under the key of its sender. */
struct blake2s_tagged {
    const uint32_t *keyed;
    const uint8_t *data, *tag;
    uint64_t length; /* of the data; at least 1 */
};

#ifdef __x86_64__ /* which is little-endian, as the digest is */
#define BLAKE2S_TURNED(word, by) ((word) >> (by) | (word) << (32 - (by)))
#define BLAKE2S_MIX(a, b, c, d, x, y)                                                                                   \
    (v[a] += v[b] + m[x], v[d] = BLAKE2S_TURNED(v[d] ^ v[a], 16), v[c] += v[d],                                         \
     v[b] = BLAKE2S_TURNED(v[b] ^ v[c], 12), v[a] += v[b] + m[y], v[d] = BLAKE2S_TURNED(v[d] ^ v[a], 8), v[c] += v[d],  \
     v[b] = BLAKE2S_TURNED(v[b] ^ v[c], 7))

/* Takes the block at `done` of each frame in; those that ended before stay as they are. */
static inline __attribute__((always_inline, target("avx2"))) void blake2s_block(
    blake2s_vector h[8], const struct blake2s_tagged *all, uint32_t count, uint64_t done) {
    blake2s_vector v[16], m[16], upto, last, going;
    uint32_t words[16][BLAKE2S_LANES] = {{0}}, terms[3][BLAKE2S_LANES] = {{0}}; /* lanes of a vector are set in memory, at once */
    for (uint32_t lane = 0; lane < count; lane++) {
        if (all[lane].length <= done)
            continue;
        uint64_t left = all[lane].length - done;
        uint32_t block[BLAKE2S_BLOCK / 4] = {0};
        if (left < BLAKE2S_BLOCK)
            memcpy(block, all[lane].data + done, left);
        else
            memcpy(block, all[lane].data + done, BLAKE2S_BLOCK);
        for (int at = 0; at < 16; at++)
            words[at][lane] = block[at];
        terms[0][lane] = (uint32_t)(BLAKE2S_BLOCK + done + (left < BLAKE2S_BLOCK ? left : BLAKE2S_BLOCK));
        terms[1][lane] = left <= BLAKE2S_BLOCK ? ~0u : 0;
        terms[2][lane] = ~0u;
    }
    memcpy(m, words, sizeof m);
    memcpy(&upto, terms[0], sizeof upto);
    memcpy(&last, terms[1], sizeof last);
    memcpy(&going, terms[2], sizeof going);
    for (int at = 0; at < 8; at++) {
        v[at] = h[at];
        v[at + 8] = (blake2s_vector){0} + BLAKE2S_IV[at];
    }
    v[12] ^= upto;
    v[14] ^= last;
#pragma clang loop unroll(full)
    for (int round = 0; round < 10; round++) {
        const uint8_t *s = BLAKE2S_SIGMA[round];
        BLAKE2S_MIX(0, 4, 8, 12, s[0], s[1]);
        BLAKE2S_MIX(1, 5, 9, 13, s[2], s[3]);
        BLAKE2S_MIX(2, 6, 10, 14, s[4], s[5]);
        BLAKE2S_MIX(3, 7, 11, 15, s[6], s[7]);
        BLAKE2S_MIX(0, 5, 10, 15, s[8], s[9]);
        BLAKE2S_MIX(1, 6, 11, 12, s[10], s[11]);
        BLAKE2S_MIX(2, 7, 8, 13, s[12], s[13]);
        BLAKE2S_MIX(3, 4, 9, 14, s[14], s[15]);
    }
    for (int at = 0; at < 8; at++)
        h[at] ^= (v[at] ^ v[at + 8]) & going;
}

static __attribute__((target("avx2"))) uint32_t blake2s_check(const struct blake2s_tagged *all, uint32_t count) {
    blake2s_vector h[8];
    uint32_t words[8][BLAKE2S_LANES] = {{0}};
    uint64_t longest = 0;
    for (uint32_t lane = 0; lane < count; lane++) {
        for (int at = 0; at < 8; at++)
            words[at][lane] = all[lane].keyed[at];
        longest = all[lane].length > longest ? all[lane].length : longest;
    }
    memcpy(h, words, sizeof h);
    for (uint64_t done = 0; done < longest; done += BLAKE2S_BLOCK)
        blake2s_block(h, all, count, done);
    memcpy(words, h, sizeof words);
    uint32_t holds = 0;
    for (uint32_t lane = 0; lane < count; lane++) {
        uint32_t tag[BLAKE2S_TAG / 4], differs = 0;
        memcpy(tag, all[lane].tag, sizeof tag);
        for (int at = 0; at < BLAKE2S_TAG / 4; at++)
            differs |= words[at][lane] ^ tag[at];
        holds |= (uint32_t)!differs << lane;
    }
    return holds;
}
#endif

/* Which of at most BLAKE2S_LANES tags are those of their frames: a bit each. Takes as long whatever the tags are. */
static uint32_t blake2s_verify_all(const struct blake2s_tagged *all, uint32_t count) {
#ifdef __x86_64__
    if (count > 2 && __builtin_cpu_supports("avx2")) /* fewer are faster one by one, and so are all in narrower vectors */
        return blake2s_check(all, count);
#endif
    uint32_t holds = 0;
    for (uint32_t one = 0; one < count; one++)
        holds |= (uint32_t)blake2s_verifies(all[one].keyed, all[one].data, all[one].length, all[one].tag) << one;
    return holds;
}

#endif
