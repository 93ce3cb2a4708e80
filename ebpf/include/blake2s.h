/* BLAKE2s (RFC 7693) with a key and a personalisation: as much of it as the tag of a frame takes (protocol/key.py). */
#ifndef BATON_BLAKE2S_H
#define BATON_BLAKE2S_H
#include <stdint.h>
#include <string.h>

#define BLAKE2S_BLOCK 64
#define BLAKE2S_SECRET 32
#define BLAKE2S_TAG 16

static const uint32_t BLAKE2S_IV[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
static const uint8_t BLAKE2S_SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static inline uint32_t blake2s_turned(uint32_t word, int by) { return word >> by | word << (32 - by); }

static inline void blake2s_mix(uint32_t *v, int a, int b, int c, int d, uint32_t x, uint32_t y) {
    v[a] += v[b] + x;
    v[d] = blake2s_turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = blake2s_turned(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = blake2s_turned(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = blake2s_turned(v[b] ^ v[c], 7);
}

/* RFC 7693 section 3.2; `count`: bytes with this block. */
static void blake2s_compress(uint32_t h[8], const uint8_t block[BLAKE2S_BLOCK], uint64_t count, int last) {
    uint32_t v[16], m[16];
    for (int at = 0; at < 16; at++)
        m[at] = (uint32_t)block[4 * at] | (uint32_t)block[4 * at + 1] << 8 | (uint32_t)block[4 * at + 2] << 16 |
                (uint32_t)block[4 * at + 3] << 24;
    memcpy(v, h, 32);
    memcpy(v + 8, BLAKE2S_IV, 32);
    v[12] ^= (uint32_t)count;
    v[13] ^= (uint32_t)(count >> 32);
    if (last)
        v[14] = ~v[14];
#pragma clang loop unroll(full)
    for (int round = 0; round < 10; round++) {
        const uint8_t *s = BLAKE2S_SIGMA[round];
        blake2s_mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        blake2s_mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        blake2s_mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        blake2s_mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        blake2s_mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        blake2s_mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        blake2s_mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        blake2s_mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int at = 0; at < 8; at++)
        h[at] ^= v[at] ^ v[at + 8];
}

/* The state once the key has been taken in: the same for every frame. The parameter block is that of section 2.5, with a
 * personalisation in its last eight bytes. */
static void blake2s_keyed(uint32_t h[8], const uint8_t secret[BLAKE2S_SECRET], const uint8_t person[8]) {
    uint8_t parameters[32] = {BLAKE2S_TAG, BLAKE2S_SECRET, 1, 1}, block[BLAKE2S_BLOCK] = {0};
    memcpy(parameters + 24, person, 8);
    for (int at = 0; at < 8; at++)
        h[at] = BLAKE2S_IV[at] ^ ((uint32_t)parameters[4 * at] | (uint32_t)parameters[4 * at + 1] << 8 |
                                  (uint32_t)parameters[4 * at + 2] << 16 | (uint32_t)parameters[4 * at + 3] << 24);
    memcpy(block, secret, BLAKE2S_SECRET);
    blake2s_compress(h, block, BLAKE2S_BLOCK, 0);
}

/* The digest of the data (at least a byte), in the first words of `h`. */
static inline void blake2s_digest(const uint32_t keyed[8], const uint8_t *data, uint64_t length, uint32_t h[8]) {
    uint64_t done = 0;
    uint8_t block[BLAKE2S_BLOCK] = {0};
    memcpy(h, keyed, 32);
    for (; length - done > BLAKE2S_BLOCK; done += BLAKE2S_BLOCK)
        blake2s_compress(h, data + done, BLAKE2S_BLOCK + done + BLAKE2S_BLOCK, 0);
    memcpy(block, data + done, length - done);
    blake2s_compress(h, block, BLAKE2S_BLOCK + length, 1);
}

/* Whether `tag` is that of the data (at least a byte); takes as long whatever it is. */
static inline int blake2s_verifies(const uint32_t keyed[8], const uint8_t *data, uint64_t length,
                                   const uint8_t tag[BLAKE2S_TAG]) {
    uint32_t h[8], differs = 0;
    blake2s_digest(keyed, data, length, h);
    for (int at = 0; at < BLAKE2S_TAG; at++)
        differs |= (uint8_t)(h[at / 4] >> 8 * (at % 4)) ^ tag[at];
    return !differs;
}

/* Writes the tag of the data (at least a byte). */
static inline void blake2s_tag(const uint32_t keyed[8], const uint8_t *data, uint64_t length, uint8_t tag[BLAKE2S_TAG]) {
    uint32_t h[8];
    blake2s_digest(keyed, data, length, h);
    for (int at = 0; at < BLAKE2S_TAG; at++)
        tag[at] = (uint8_t)(h[at / 4] >> 8 * (at % 4));
}

#endif
