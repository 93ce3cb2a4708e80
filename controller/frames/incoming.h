/* Frames from members: it takes them in batches, notes what BACKLOG, YIELD and ACK say, and answers PING. A part of
 * frames.c. */
#ifndef BATON_FRAMES_INCOMING_H
#define BATON_FRAMES_INCOMING_H
#include "outgoing.h"

#define HUGE (1LL << 62)
#define LONGEST_DELAY_NS 20000000
#define DELAY_STEP_NS 50000
#define OLDEST_NS 50000000 /* see protocol/link.py */

enum verdict { TAKEN, PROVEN, LEFT, LATER, EXCESS };

#define BIT(kind) (1ULL << (kind))
/* What hosts say again and again and Python handles: DIRECTORY_REQUEST, REPORT, SIZE_REPORT, CLOCK_REPORT, HOST_STATE,
 * HOST_LINK, PATHS, LOSSES, GROUPS_REQUEST, COFLOW_REPORT. */
#define AGAIN_AND_AGAIN \
    (BIT(3) | BIT(10) | BIT(16) | BIT(22) | BIT(40) | BIT(41) | BIT(42) | BIT(43) | BIT(46) | BIT(47))

static void acknowledged(struct frames *f, struct peer *peer, uint32_t node, const uint8_t *body) {
    struct slot *slot = book_find_of(&f->book, read8(body), node, read4(body + 8));
    if (!slot || !(slot->flags & AWAITED))
        return;
    uint64_t received_ns = read8(body + 12), sent_ns = (uint64_t)slot->sent_ns;
    int64_t opened_ns = (int64_t)read8(body + 20), told_ns = peer->told_ns;
    uint64_t passed_ns = received_ns > sent_ns ? received_ns - sent_ns : 0;
    int64_t delay_ns = passed_ns > LONGEST_DELAY_NS ? LONGEST_DELAY_NS : (int64_t)passed_ns;
    if (told_ns == NEVER)
        peer->delay_ns = delay_ns;
    else
        peer->delay_ns += (delay_ns - peer->delay_ns) >> 3;
    int64_t change_ns = peer->delay_ns > told_ns ? peer->delay_ns - told_ns : told_ns - peer->delay_ns;
    if (told_ns == NEVER || change_ns > (told_ns / 8 > DELAY_STEP_NS ? told_ns / 8 : DELAY_STEP_NS)) {
        peer->told_ns = peer->delay_ns;
        f->delayed[f->counts.delayed++] = node;
    }
    int64_t lateness_ns = opened_ns - slot->row.start_ns;
    int late = lateness_ns > f->terms.late_ns;
    peer->acknowledged++;
    peer->lateness_ns += (lateness_ns - peer->lateness_ns) >> 3;
    f->book.tally.acks++;
    if (late || slot->flags & WATCHED)
        f->opened[f->counts.opened++] = (struct opened){slot->row, opened_ns, node, late};
    slot->flags &= ~(uint32_t)AWAITED;
    book_settle(&f->book, slot);
}

/* Keeps what a YIELD said, for a BACKLOG from before it that waits for Python. */
static void keep_word(struct peer *peer, uint64_t sequence, uint32_t destination, int64_t bytes) {
    struct word *word = &peer->words[peer->next_word++ % WORDS];
    if (word->sequence > peer->dropped_sequence)
        peer->dropped_sequence = word->sequence;
    *word = (struct word){sequence, bytes, destination};
}

static void gave_back(struct frames *f, struct peer *peer, uint32_t node, uint64_t sequence, const uint8_t *body,
                      int64_t now_ns) {
    uint64_t number = read8(body + 4);
    int64_t unspent_bytes = read4(body + 12);
    uint32_t at = f->counts.yields++, destination = read4(body);
    int64_t left_bytes = destination < NODES && f->present[destination] ? (int64_t)read8(body + 16) : 0;
    peer->yields++;
    keep_word(peer, sequence, destination, left_bytes);
    f->watched[at] = (uint8_t)book_yielded(&f->book, number, node, destination, unspent_bytes, now_ns);
    f->yields[at] = (struct returned){
        number > (uint64_t)HUGE ? HUGE : (int64_t)number, node, destination, unspent_bytes, left_bytes,
    };
}

static void waits(struct frames *f, uint32_t node, const uint8_t *body, uint32_t length) {
    uint32_t at = f->counts.entries;
    f->nodes[f->counts.backlogs] = node;
    for (const uint8_t *entry = body + BACKLOG_BYTES; entry < body + length; entry += ENTRY_BYTES) {
        uint32_t destination = read4(entry);
        if (destination < NODES && f->present[destination]) {
            f->destinations[at] = destination;
            f->sizes[at++] = (int64_t)read8(entry + 4);
        }
    }
    f->counts.entries = f->offsets[++f->counts.backlogs] = at;
}

/* Answers a PING that came at `stamp_ns` of the wall clock (0: not known). One by one: the time that it leaves is in the
 * frame. */
static void answer(struct frames *f, int fd, const struct peer *peer, const uint8_t *body, int64_t stamp_ns) {
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC), age_ns = clock_ns(CLOCK_REALTIME) - stamp_ns;
    if (now_ns >= f->terms.until_ns) {
        f->counts.withheld++;
        return;
    }
    uint8_t *pong = f->answer + f->terms.tag_bytes;
    head(f, pong, peer, PONG, PONG_BYTES);
    memcpy(pong + BODY, body, PING_BYTES);
    write8(pong + BODY + 8, (uint64_t)(now_ns - (stamp_ns && age_ns >= 0 && age_ns <= OLDEST_NS ? age_ns : 0)));
    write8(pong + BODY + 16, (uint64_t)clock_ns(CLOCK_MONOTONIC));
    send(fd, f->answer, seal(f, f->answer, peer), MSG_DONTWAIT); /* if the interface cannot take it, it is lost */
}

/* Whether a body is one that is taken here: as the rules of its kind want it, of one page, without numbers out of bounds. */
static int plain(struct frames *f, uint8_t kind, const uint8_t *body, uint32_t length) {
    if (kind == ACK)
        return length == ACK_BYTES && read8(body + 20) <= (uint64_t)HUGE;
    if (kind == YIELD)
        return length == YIELD_BYTES && read8(body + 16) <= (uint64_t)HUGE;
    if (kind == PING)
        return length == PING_BYTES;
    if (kind != BACKLOG || length < BACKLOG_BYTES || (length - BACKLOG_BYTES) % ENTRY_BYTES || length > LONGEST_BODY ||
        read2(body + 8) != 0 || read2(body + 10) != 1)
        return 0;
    uint32_t stamp = ++f->stamp;
    for (const uint8_t *entry = body + BACKLOG_BYTES; entry < body + length; entry += ENTRY_BYTES) {
        uint32_t destination = read4(entry);
        uint64_t size = read8(entry + 4);
        if (!size || size > (uint64_t)HUGE || read8(entry + 12))
            return 0;
        if (destination < NODES) {
            if (f->stamps[destination] == stamp)
                return 0; /* named twice */
            f->stamps[destination] = stamp;
        }
    }
    return 1;
}

/* The order of frames of different members does not matter, nor that of ACK; but a BACKLOG and a YIELD of one member must not
 * change places, and the kinds of a batch are handed on one after the other. */
static int ends_batch(struct frames *f, struct peer *peer, uint8_t kind) {
    uint8_t bit = kind == YIELD ? 1 : kind == BACKLOG ? 2 : 0;
    if (peer->batch != f->batch) {
        peer->batch = f->batch;
        peer->kinds = 0;
    }
    if (bit && peer->kinds & ~bit)
        return 1;
    peer->kinds |= bit;
    return 0;
}

/* Whether a member that was idle reports that it still is: it sent nothing, and refused no other frames. Most hosts of a large
 * fabric are, and there is nothing in it that Python has to know. What the member has said of its queues in this batch Python
 * may hear after this report (batches.h): then it is told the next one, too. */
static int is_idle_still(struct peer *peer, const uint8_t *body, uint32_t length, uint32_t era) {
    peer_begin(peer, era);
    uint64_t said = 0xcbf29ce484222325;
    uint64_t before = peer->idle;
    peer->idle = 0;
    if (length < REPORT_BYTES || (length - REPORT_BYTES) % COUNTER_BYTES || read2(body + 16) != 0 || read2(body + 18) != 1 ||
        read2(body + 20) != 0)
        return 0;
    for (const uint8_t *at = body + REPORT_BYTES; at < body + length; at++)
        said = (said ^ *at) * 0x100000001b3; /* FNV-1a */
    peer->idle = peer->kinds ? 0 : said | 1;
    return peer->idle && peer->idle == before;
}

static enum verdict take(struct frames *f, int fd, struct inbox *in, uint32_t at, int64_t now_ns) {
    verify(in, at, f->keys, &f->terms, f->peers);
    struct peer *peer = in->senders[at];
    if (!peer || !peer->known) /* it may have left since */
        return LEFT;
    const uint8_t *frame = in->frames[at], *body = frame + BODY;
    uint32_t node = read4(frame + SENDER_AT), length = read2(frame + LENGTH_AT);
    uint8_t kind = frame[KIND_AT];
    int proves = kind < 64 && AGAIN_AND_AGAIN & BIT(kind), counts = in->tagged[at] && kind != ACK && kind != PING;
    uint64_t sequence = read8(frame + SEQUENCE_AT);
    if (counts && peer_says_too_much(peer, f->terms.most_said, now_ns)) {
        peer->excess++;
        return EXCESS;
    }
    if (!proves && !plain(f, kind, body, length)) {
        peer->idle = 0;
        peer->said += counts && sequence > peer->window.highest; /* others may say again what it said once */
        return LEFT;
    }
    if (in->tagged[at] && ends_batch(f, peer, kind))
        return LATER;
    if (!in->tagged[at] || !peer_accepts(peer, sequence))
        return LEFT;
    peer->said += (uint32_t)counts;
    peer->last_heard_ns = now_ns;
    if (kind == REPORT && is_idle_still(peer, body, length, f->era)) {
        f->counts.accepted++;
        return TAKEN;
    }
    if (proves)
        return PROVEN;
    f->counts.accepted++;
    if (kind == ACK)
        acknowledged(f, peer, node, body);
    else if (kind == YIELD) {
        peer->idle = 0;
        gave_back(f, peer, node, sequence, body, now_ns);
    }
    else if (kind == PING)
        answer(f, fd, peer, body, stamp_of(in, at));
    else {
        peer->idle = 0;
        peer->backlog_ns = now_ns;
        if (sequence > peer->backlog_sequence)
            peer->backlog_sequence = sequence;
        waits(f, node, body, length);
    }
    return TAKEN;
}

/* Takes a batch from a socket, at most `most` frames; the batch ends before a frame that must not change places with one of it,
 * and with a frame that is not taken here. What one host says beyond `most_said` nobody reads: it says again what waits. */
void frames_take(struct frames *f, int fd, uint32_t box, uint32_t most, int64_t now_ns) {
    struct inbox *in = &f->inboxes[box];
    struct counts *counts = &f->counts;
    if (in->next == in->count)
        receive(in, fd, most < MOST ? most : MOST);
    counts->accepted = counts->yields = counts->backlogs = counts->entries = counts->opened = counts->delayed = 0;
    counts->withheld = 0;
    counts->raw_bytes = NEVER;
    f->batch += !f->gathers;
    f->offsets[0] = 0;
    while (in->next < in->count) {
        uint32_t at = in->next;
        enum verdict verdict = take(f, fd, in, at, now_ns);
        if (verdict == LATER)
            break;
        in->next++;
        if (verdict != TAKEN && verdict != EXCESS) {
            f->raw = in->frames[at];
            counts->proven = verdict == PROVEN;
            counts->raw_bytes = (int32_t)in->messages[at].msg_len;
            counts->raw_stamp_ns = stamp_of(in, at);
            break;
        }
    }
    counts->waiting = in->count - in->next;
    counts->full = in->full;
}

#endif
