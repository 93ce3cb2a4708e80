/* Where the numbers of a frame are, as PROTOCOL.md has them, and how they are read and written. */
#ifndef BATON_WIRE_H
#define BATON_WIRE_H
#include <stdint.h>
#include <string.h>

enum {
    TYPE_AT = 12, MAGIC_AT = 14, VERSION_AT = 16, KIND_AT = 17, FLAGS_AT = 18, LENGTH_AT = 20, SENDER_AT = 22, EPOCH_AT = 26,
    SEQUENCE_AT = 30, BODY = 38, ENROLMENT = 16, TAG = 16, SHORTEST = 60, LONGEST = 1514, LONGEST_BODY = 1412,
};
enum { ETHERTYPE = 0x88b5, MAGIC = 0x4254, VERSION = 3, LEADER = 1 };
enum { BACKLOG = 6, DIRECTIVE = 7, YIELD = 8, ACK = 9, REPORT = 10, PING = 12, PONG = 13 };
enum {
    BACKLOG_BYTES = 12, ENTRY_BYTES = 20, YIELD_BYTES = 24, ACK_BYTES = 28, REPORT_BYTES = 22, COUNTER_BYTES = 10, PING_BYTES = 8,
    PONG_BYTES = 24, GRANT_BYTES = 40, MOST_GRANTS = 35,
};
enum { MOST_ENTRIES = (LONGEST_BODY - BACKLOG_BYTES) / ENTRY_BYTES };

static inline uint16_t read2(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static inline uint32_t read4(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t read8(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap64(value);
}

static inline void write2(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void write4(uint8_t *at, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(at, &value, sizeof value);
}

static inline void write8(uint8_t *at, uint64_t value) {
    value = __builtin_bswap64(value);
    memcpy(at, &value, sizeof value);
}

#endif
