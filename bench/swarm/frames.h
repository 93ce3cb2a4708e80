/* Baton's frames as hosts make and read them: version 3 of the wire (protocol/PROTOCOL.md), and no other. */
#ifndef BATON_SWARM_FRAMES_H
#define BATON_SWARM_FRAMES_H
#include "blake2s.h"

enum {
    ETHERTYPE = 0x88B5, MAGIC = 0x4254, WIRE = 3,
    AT_TYPE = 17, AT_LENGTH = 20, AT_SENDER = 22, AT_EPOCH = 26, AT_SEQUENCE = 30, AT_BODY = 38,
    ENROLMENT = 16, LEAST_FRAME = 60, MOST_FRAME = 1514, MOST_BODY = 1412,
};

enum kind {
    REGISTER = 1, WELCOME, DIRECTORY_REQUEST, DIRECTORY, REGULATE, BACKLOG, DIRECTIVE, YIELD, ACK, REPORT, HEARTBEAT, PING,
    PONG, LEAVE, ERROR, CLOCK_REPORT = 22, HOST_STATE = 40, HOST_LINK = 41, DIRECTORY_CHANGE = 44, GROUPS_CHANGE = 45,
    GROUPS_REQUEST = 46, KINDS = 64,
};

struct grant {
    uint32_t destination, bytes;
    uint64_t slot, start_ns, end_ns, rate_bps;
};

struct flow_entry { /* of BACKLOG (bytes that wait, those with a deadline) and of REPORT (bytes that were sent, that wait) */
    uint32_t destination;
    uint64_t one, other;
};

static inline uint8_t *put(uint8_t *at, uint64_t value, int bytes) {
    for (int byte = bytes; byte-- > 0; value >>= 8)
        at[byte] = (uint8_t)value;
    return at + bytes;
}

static inline uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int byte = 0; byte < bytes; byte++)
        value = value << 8 | at[byte];
    return value;
}

/* -- bodies: each returns the end -- */

static uint8_t *pack_register(uint8_t *at, uint64_t nonce, uint64_t rate_bps, const char *name, const char *version,
                              uint32_t address) {
    uint64_t name_bytes = strlen(name), version_bytes = strlen(version);
    at = put(put(at, nonce, 8), rate_bps, 8);
    at = put(put(put(put(at, 1, 1), name_bytes, 1), version_bytes, 1), 1, 1);
    at = put(put(at, WIRE, 1), WIRE, 1);
    memcpy(at, name, name_bytes);
    memcpy(at + name_bytes, version, version_bytes);
    return put(put(at + name_bytes + version_bytes, 4, 1), address, 4);
}

static uint8_t *pack_backlog(uint8_t *at, uint64_t number, uint32_t page, uint32_t pages, const struct flow_entry *entry,
                             uint32_t count) {
    at = put(put(put(at, number, 8), page, 2), pages, 2);
    for (uint32_t each = 0; each < count; each++)
        at = put(put(put(at, entry[each].destination, 4), entry[each].one, 8), entry[each].other, 8);
    return at;
}

static uint8_t *pack_report(uint8_t *at, uint64_t number, uint64_t period_ns, uint32_t page, uint32_t pages,
                            const struct flow_entry *entry, uint32_t count) {
    at = put(put(put(put(put(at, number, 8), period_ns, 8), page, 2), pages, 2), count, 2);
    for (uint32_t each = 0; each < count; each++)
        at = put(put(put(at, entry[each].destination, 4), entry[each].one, 8), entry[each].other, 8);
    return at;
}

static uint8_t *pack_yield(uint8_t *at, uint32_t destination, uint64_t slot, uint32_t unspent, uint64_t backlog) {
    return put(put(put(put(at, destination, 4), slot, 8), unspent, 4), backlog, 8);
}

static uint8_t *pack_ack(uint8_t *at, uint64_t slot, uint32_t destination, uint64_t received_ns, uint64_t opened_ns) {
    return put(put(put(put(at, slot, 8), destination, 4), received_ns, 8), opened_ns, 8);
}

static uint8_t *pack_host_state(uint8_t *at, uint64_t fingerprint, uint64_t wall_ns, uint64_t leader_ns, uint64_t error_ns) {
    static const char kernel[] = "swarm";
    at = put(put(put(put(at, fingerprint, 8), wall_ns, 8), leader_ns, 8), error_ns, 8);
    at = put(put(put(put(at, 0, 4), UINT32_MAX, 4), sizeof kernel - 1, 1), 0, 1);
    memcpy(at, kernel, sizeof kernel - 1);
    return at + sizeof kernel - 1;
}

static uint8_t *pack_host_link(uint8_t *at, uint64_t rate_bps, uint64_t period_ns, uint64_t received) {
    return put(put(put(put(put(put(at, rate_bps, 8), period_ns, 8), received, 8), 0, 8), 0, 2), 0, 2);
}

/* The grants of a DIRECTIVE's body; -1: it is not made of whole ones, or of more than `most`. */
static int32_t read_directive(const uint8_t *body, uint32_t length, struct grant *grants, uint32_t most) {
    enum { GRANT = 40 };
    if (length % GRANT || length / GRANT > most)
        return -1;
    for (uint32_t each = 0; each < length / GRANT; each++, body += GRANT)
        grants[each] = (struct grant){
            .destination = (uint32_t)get(body, 4), .slot = get(body + 4, 8), .start_ns = get(body + 12, 8),
            .end_ns = get(body + 20, 8), .bytes = (uint32_t)get(body + 28, 4), .rate_bps = get(body + 32, 8),
        };
    return (int32_t)(length / GRANT);
}

/* -- frames -- */

/* Completes a frame from a host whose body is in place, with header, tag and padding; returns its length. */
static uint32_t seal(uint8_t *frame, enum kind kind, uint32_t body_bytes, const uint8_t to[6], const uint8_t from[6],
                     uint32_t sender, uint32_t epoch, uint64_t sequence, const uint8_t enrolment[ENROLMENT],
                     const uint32_t key[8]) {
    memcpy(frame, to, 6);
    memcpy(frame + 6, from, 6);
    uint8_t *at = put(put(put(put(put(frame + 12, ETHERTYPE, 2), MAGIC, 2), WIRE, 1), kind, 1), 0, 2);
    put(put(put(put(at, body_bytes, 2), sender, 4), epoch, 4), sequence, 8);
    uint32_t end = AT_BODY + body_bytes;
    memcpy(frame + end, enrolment, ENROLMENT);
    end += ENROLMENT;
    blake2s_tag(key, frame, end, frame + end);
    end += BLAKE2S_TAG;
    if (end < LEAST_FRAME)
        memset(frame + end, 0, LEAST_FRAME - end);
    return end < LEAST_FRAME ? LEAST_FRAME : end;
}

/* Whether this is a frame of our version whose length is right and whose tag, of `tag` bytes, fits. */
static int whole(const uint8_t *frame, uint32_t length, uint32_t tag) {
    if (length < LEAST_FRAME || get(frame + 12, 2) != ETHERTYPE || get(frame + 14, 2) != MAGIC || frame[16] != WIRE)
        return 0;
    uint32_t end = AT_BODY + (uint32_t)get(frame + AT_LENGTH, 2) + tag;
    if (get(frame + 18, 2) || length != (end < LEAST_FRAME ? LEAST_FRAME : end))
        return 0;
    for (uint32_t at = end; at < length; at++)
        if (frame[at])
            return 0;
    return 1;
}

/* Whether this is a whole frame from the leader to one host, under its key. */
static int opens(const uint8_t *frame, uint32_t length, const uint32_t key[8]) {
    if (!whole(frame, length, BLAKE2S_TAG))
        return 0;
    uint32_t end = AT_BODY + (uint32_t)get(frame + AT_LENGTH, 2);
    return blake2s_verifies(key, frame, end, frame + end);
}

#endif
