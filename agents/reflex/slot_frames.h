/* Frames of the slot reflex: DIRECTIVE in, verified and read as protocol/wire.py, protocol/auth.py and protocol/messages.py do;
 * ACK, YIELD and BACKLOG out. */
#ifndef BATON_SLOT_FRAMES_H
#define BATON_SLOT_FRAMES_H
#include <sys/socket.h>

#include "slots.h"

#define SECOND_NS 1000000000LL

/* Rounds down, as Python's // does; `by` is positive. */
static __int128 divided(__int128 value, __int128 by) {
    __int128 whole = value / by;
    return whole - (value % by < 0);
}

/* The leader's clock at a time of ours (Clock.coordinator). */
static int64_t leader_ns(const struct terms *terms, int64_t local_ns) {
    __int128 since_ns = (__int128)local_ns - terms->taken_ns;
    return (int64_t)((__int128)local_ns + terms->offset_ns + divided(since_ns * terms->drift_ppb, SECOND_NS));
}

/* Our clock at a time of the leader's (Clock.local). */
static __int128 local_ns(const struct terms *terms, uint64_t coordinator_ns) {
    __int128 without = (__int128)coordinator_ns - terms->offset_ns;
    return without - divided((without - terms->taken_ns) * terms->drift_ppb, SECOND_NS + terms->drift_ppb);
}

static int out_of_reach(__int128 time_ns) { return time_ns >= FAR || time_ns <= -FAR; }

/* The place of a destination that has a gate and needs permission; `DESTINATIONS`: there is no such. */
static uint32_t place_of(const struct slots *s, uint32_t node) {
    for (uint32_t at = 0; at < s->destination_count; at++)
        if (s->gate[at].node == node)
            return at;
    return DESTINATIONS;
}

/* Whether a grant of nothing, which takes a slot back, is about one that is neither open nor granted before in the same body. */
static int takes_back(const struct slots *s, const uint8_t *body, const uint8_t *grant) {
    const struct destination *d = &s->destination[place_of(s, read4(grant))];
    uint64_t number = read8(grant + 4);
    if (d->open && d->slot == number)
        return 0;
    for (const uint8_t *earlier = body; earlier < grant; earlier += GRANT_BYTES)
        if (read8(earlier + 4) == number)
            return 0;
    return 1;
}

/* Whether all grants of a body are plain: bytes for known destinations, within the bounds up to which the senders are freed; or
 * slots that are taken back before their start. */
static int plain(const struct slots *s, const uint8_t *body, uint32_t length) {
    if (!length || length > LONGEST_BODY || length % GRANT_BYTES || s->waiting_count + length / GRANT_BYTES > WAITING)
        return 0;
    for (const uint8_t *grant = body; grant < body + length; grant += GRANT_BYTES) {
        uint32_t at = place_of(s, read4(grant)), bytes = read4(grant + 28);
        uint64_t start_ns = read8(grant + 12), end_ns = read8(grant + 20);
        if (at == DESTINATIONS || (!bytes && !takes_back(s, body, grant)) || read8(grant + 32) || end_ns < start_ns ||
            2LL * bytes > s->destination[at].outstanding || out_of_reach(local_ns(&s->terms, start_ns)) ||
            out_of_reach(local_ns(&s->terms, end_ns)))
            return 0;
    }
    return 1;
}

static int is_unwanted(const struct terms *terms, uint8_t kind) { return kind < 64 && terms->unwanted >> kind & 1; }

/* Whether a frame is the leader's and can be taken here: a DIRECTIVE that can be obeyed, or one that the agent would only verify.
 * If not, there is no trace of it. */
static int can_take(struct slots *s, const uint8_t *frame, uint64_t size) {
    struct terms *terms = &s->terms;
    if (size < BODY + TAG || size > ROOM || memcmp(frame, terms->address, 6) ||
        memcmp(frame + 6, terms->leader, 6) || read2(frame + TYPE_AT) != ETHERTYPE || read2(frame + MAGIC_AT) != MAGIC ||
        frame[VERSION_AT] != VERSION || read2(frame + FLAGS_AT))
        return 0;
    uint32_t length = read2(frame + LENGTH_AT);
    return size == BODY + length + TAG && read4(frame + SENDER_AT) == LEADER && read4(frame + EPOCH_AT) == terms->epoch &&
           (frame[KIND_AT] == DIRECTIVE ? plain(s, frame + BODY, length) : is_unwanted(terms, frame[KIND_AT])) &&
           blake2s_verifies(terms->from_leader, frame, BODY + length, frame + BODY + length) &&
           window_accepts(&terms->window, read8(frame + SEQUENCE_AT));
}

/* Sends a frame to the leader, through the interface's queues: it wakes them. */
static void send_frame(struct slots *s, uint8_t kind, const uint8_t *body, uint32_t length) {
    struct terms *terms = &s->terms;
    uint8_t room[ROOM], *frame = room + terms->tag_bytes, *end = frame + BODY + length;
    memcpy(frame, terms->leader, 6);
    memcpy(frame + 6, terms->address, 6);
    write2(frame + TYPE_AT, ETHERTYPE);
    write2(frame + MAGIC_AT, MAGIC);
    frame[VERSION_AT] = VERSION;
    frame[KIND_AT] = kind;
    write2(frame + FLAGS_AT, 0);
    write2(frame + LENGTH_AT, (uint16_t)length);
    write4(frame + SENDER_AT, terms->node);
    write4(frame + EPOCH_AT, terms->epoch);
    write8(frame + SEQUENCE_AT, ++terms->sequence);
    memcpy(frame + BODY, body, length);
    memcpy(end, terms->enrolment, ENROLMENT);
    blake2s_tag(terms->to_leader, frame, BODY + length + ENROLMENT, end + ENROLMENT);
    if (terms->tag_bytes) {
        memmove(room, frame, TYPE_AT);
        memcpy(room + TYPE_AT, terms->tag, sizeof terms->tag);
    }
    send(terms->link_fd, room, terms->tag_bytes + BODY + length + ENROLMENT + TAG, MSG_DONTWAIT);
}

static void send_ack(struct slots *s, const struct slot *slot, int64_t opened_ns) {
    uint8_t body[ACK_BYTES];
    write8(body, slot->number);
    write4(body + 8, s->gate[slot->at].node);
    write8(body + 12, (uint64_t)leader_ns(&s->terms, slot->received_ns));
    write8(body + 20, (uint64_t)leader_ns(&s->terms, opened_ns));
    send_frame(s, ACK, body, sizeof body);
}

/* Tells all that waits, in one page: there is room for every destination. */
static void send_backlog(struct slots *s) {
    uint8_t body[BACKLOG_BYTES + DESTINATIONS * ENTRY_BYTES], *end = body + BACKLOG_BYTES;
    write8(body, ++s->terms.report);
    write2(body + 8, 0);
    write2(body + 10, 1);
    for (uint32_t at = 0; at < s->destination_count; at++) {
        if (!s->destination[at].waiting_bytes)
            continue;
        write4(end, s->gate[at].node);
        write8(end + 4, (uint64_t)s->destination[at].waiting_bytes);
        write8(end + 12, 0);
        end += ENTRY_BYTES;
    }
    send_frame(s, BACKLOG, body, (uint32_t)(end - body));
}

static void send_yield(struct slots *s, uint32_t node, uint64_t slot, int64_t unspent_bytes, int64_t arrived_bytes) {
    uint8_t body[YIELD_BYTES];
    write4(body, node);
    write8(body + 4, slot);
    write4(body + 12, (uint32_t)unspent_bytes);
    write8(body + 16, (uint64_t)arrived_bytes);
    send_frame(s, YIELD, body, sizeof body);
}

#endif
