/* Frames of members in, directives out, in batches, for the coordinator of one term (controller/frames/frames.py).
 *
 * It takes BACKLOG, YIELD and ACK of members that it was told of, and answers PING, when a frame passes every check of
 * PROTOCOL.md. What else hosts say again and again it hands on as *proven* then, without a look at the body: authentic, and
 * new. Whatever else it does not take, for any reason, it hands on as it came, with no trace of it here: what that frame is,
 * and why it is refused, the guard says (protocol/auth.py). Nothing is allocated but where the tables of slots and pairs
 * grow. */
#define _GNU_SOURCE
#include "incoming.h"
#include "loop.h"
#include "outgoing.h"

struct frames *frames_new(const uint8_t *address, uint32_t epoch, uint64_t sequence) {
    struct frames *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    if (!book_make(&f->book) || !lock_make(&f->lock)) {
        book_free(&f->book);
        free(f);
        return NULL;
    }
    memcpy(f->terms.address, address, 6);
    f->terms.epoch = epoch;
    f->terms.sequence = sequence;
    f->counts.raw_bytes = NEVER;
    memset(f->inboxes, 0, sizeof f->inboxes); /* so that all pages are there: each costs who uses it first 1.5 us */
    memset(f->out, 0, sizeof f->out);
    for (int box = 0; box < INBOXES; box++)
        inbox_make(&f->inboxes[box]);
    return f;
}

void frames_free(struct frames *f) {
    lock_free(&f->lock);
    book_free(&f->book);
    free(f->others);
    free(f);
}

void frames_hold(struct frames *f) { lock_hold(&f->lock); }
void frames_release(struct frames *f) { lock_release(&f->lock); }
void frames_lend(struct frames *f) { lock_lend(&f->lock); }

/* Python knows less than it was told: it has another policy, or a member has left. */
void frames_begin_era(struct frames *f) { f->era++; }

/* Where what Python reads and writes is. */
void *frames_counts(struct frames *f) { return &f->counts; }
void *frames_terms(struct frames *f) { return &f->terms; }
void *frames_tally(struct frames *f) { return &f->book.tally; }
void *frames_peers(struct frames *f) { return f->peers; }
void *frames_present(struct frames *f) { return f->present; }
void *frames_raw(struct frames *f) { return (void *)f->raw; }
void *frames_yields(struct frames *f) { return f->yields; }
void *frames_watched(struct frames *f) { return f->watched; }
void *frames_opened(struct frames *f) { return f->opened; }
void *frames_delayed(struct frames *f) { return f->delayed; }
void *frames_nodes(struct frames *f) { return f->nodes; }
void *frames_offsets(struct frames *f) { return f->offsets; }
void *frames_destinations(struct frames *f) { return f->destinations; }
void *frames_sizes(struct frames *f) { return f->sizes; }
void *frames_others(struct frames *f) { return f->others; }

/* Tells of a member, whose window and figures the caller has put in its place. */
void frames_know(struct frames *f, uint32_t node, const uint8_t *mac, const uint8_t *enrolment, const uint8_t *to_leader,
                 const uint8_t *from_leader, const uint8_t *person) {
    struct peer *peer = &f->peers[node];
    memcpy(peer->mac, mac, 6);
    if (memcmp(peer->enrolment, enrolment, ENROLMENT)) {
        peer->backlog_sequence = peer->dropped_sequence = 0;
        peer->backlog_ns = 0;
        memset(peer->words, 0, sizeof peer->words);
    }
    memcpy(peer->enrolment, enrolment, ENROLMENT);
    blake2s_keyed(peer->to_leader, to_leader, person);
    blake2s_keyed(peer->from_leader, from_leader, person);
    peer->known = 1;
    f->keys++;
    peer->directed = 0; /* what it said in a batch that Python was not told yet keeps its order */
    peer->idle = 0;
}

/* -- single events, as the Python way has them -------------------------------------------------------------------- */

void frames_granted(struct frames *f, const struct row *row, int64_t now_ns) { book_granted(&f->book, row, now_ns, 1); }

void frames_revoked(struct frames *f, uint64_t number, int64_t now_ns) { book_revoked(&f->book, number, now_ns); }

void frames_yielded(struct frames *f, uint64_t number, uint32_t node, uint32_t destination, int64_t unspent_bytes,
                    int64_t now_ns) {
    book_yielded(&f->book, number, node, destination, unspent_bytes, now_ns);
}

/* Counts the first acknowledgement of a slot; 0: it is not awaited. */
int frames_opened_one(struct frames *f, uint64_t number, int late) {
    struct slot *slot = book_find(&f->book, number);
    if (!slot || !(slot->flags & AWAITED))
        return 0;
    f->book.tally.acks++;
    f->book.tally.late += late;
    slot->flags &= ~(uint32_t)AWAITED;
    book_settle(&f->book, slot);
    return 1;
}

/* A slot that is not acknowledged yet, and when its directive left; 0: there is none. */
int frames_awaited(struct frames *f, uint64_t number, struct row *row, int64_t *sent_ns) {
    struct slot *slot = book_find(&f->book, number);
    if (!slot || !(slot->flags & AWAITED))
        return 0;
    *row = slot->row;
    *sent_ns = slot->sent_ns;
    return 1;
}

/* How many records of slots there are, in use or not. */
uint32_t frames_records(const struct frames *f) { return f->book.slots_top; }

uint32_t frames_sweep(struct frames *f, int64_t then_ns, uint32_t most, uint64_t *found) {
    return book_sweep(&f->book, then_ns, most, found);
}

void frames_lost(struct frames *f, uint64_t number) { book_lost(&f->book, number); }

void frames_left(struct frames *f, int64_t node, uint32_t from, uint32_t most) { book_left(&f->book, node, from, most); }

void frames_count_permitted(struct frames *f, uint32_t from, uint32_t most, int64_t now_ns) {
    book_count_some(&f->book, from, most, now_ns);
}

/* How many pairs there are of which something is to be known. */
uint32_t frames_pairs(const struct frames *f) { return f->book.pairs_top; }

uint32_t frames_take_permitted(struct frames *f, uint32_t *before, uint32_t most, struct permission *taken) {
    return book_take_some(&f->book, before, most, taken);
}
