/* Frames of members in, directives out, in batches, for the coordinator of one term (controller/frames/frames.py).
 *
 * It takes BACKLOG, YIELD and ACK of members that it was told of, and answers PING, when a frame passes every check of
 * PROTOCOL.md. What else hosts say again and again it hands on as *proven* then, without a look at the body: authentic, and new.
 * Whatever else it does not take, for any reason, it hands on as it came, with no trace of it here: what that frame is, and why it
 * is refused, the guard says (protocol/auth.py). Nothing is allocated but where the tables of slots and pairs grow. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "book.h"
#include "inbox.h"

#define CHUNK 32 /* frames sent between two looks at the lease */
#define HUGE (1LL << 62)
#define LONGEST_DELAY_NS 20000000
#define DELAY_STEP_NS 50000
#define OLDEST_NS 50000000 /* see protocol/link.py */

enum { INBOXES = 2 };
enum verdict { TAKEN, PROVEN, LEFT, LATER };

#define BIT(kind) (1ULL << (kind))
/* What hosts say again and again and Python handles: DIRECTORY_REQUEST, REPORT, SIZE_REPORT, CLOCK_REPORT, HOST_STATE, HOST_LINK,
 * PATHS, LOSSES, GROUPS_REQUEST, COFLOW_REPORT. */
#define AGAIN_AND_AGAIN \
    (BIT(3) | BIT(10) | BIT(16) | BIT(22) | BIT(40) | BIT(41) | BIT(42) | BIT(43) | BIT(46) | BIT(47))

/* Known to ctypes as `Counts`: what the last batch held. */
struct counts {
    uint32_t accepted, yields, backlogs, entries, opened, delayed;
    int32_t raw_bytes; /* of the frame that was not taken and ended the batch; NEVER: there is none */
    uint32_t waiting;  /* frames received and not looked at yet */
    uint32_t full;     /* whether the socket may hold more */
    uint32_t sent, withheld, others, proven; /* `proven`: whether the frame that was not taken is authentic, and new */
    int64_t raw_stamp_ns;                    /* when the kernel received it, by the wall clock; 0: not known */
};

/* A slot that is given back, as the policy takes it. */
struct returned {
    int64_t slot, node, destination, unspent, backlog;
};

/* An acknowledgement that is told: of a watched slot, or late. */
struct opened {
    struct row row;
    int64_t opened_ns, by, late;
};

struct frames {
    pthread_mutex_t lock; /* of all this, and of the policy's cores, where a loop serves (loop.h) */
    struct counts counts;
    struct terms terms;
    struct book book;
    struct returned yields[MOST];
    uint8_t watched[MOST]; /* for each of `yields`: whether the slot is watched */
    struct opened opened[MOST];
    uint32_t delayed[MOST]; /* nodes whose delay has changed by something */
    uint32_t nodes[MOST], offsets[MOST + 1];
    uint32_t destinations[MOST * MOST_ENTRIES];
    int64_t sizes[MOST * MOST_ENTRIES];
    uint32_t *others; /* rows of a plan that go to members unknown here */
    uint32_t others_room, batch, flush, stamp;
    uint32_t keys; /* grows with each member whose keys were told */
    const uint8_t *raw;
    uint8_t present[NODES];
    uint32_t stamps[NODES]; /* the backlog that named this destination last */
    struct peer peers[NODES];
    struct inbox inboxes[INBOXES];
    uint32_t out_count;
    struct peer *out_peers[MOST];
    struct mmsghdr out_messages[MOST];
    struct iovec out_parts[MOST];
    uint8_t out[MOST][ROOM];
    uint8_t answer[ROOM];
};

/* A lock that its holder may take again, and whose holder runs at the priority of who waits for it. */
static int make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    int made = !pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return made;
}

struct frames *frames_new(const uint8_t *address, uint32_t epoch, uint64_t sequence) {
    struct frames *f = calloc(1, sizeof *f);
    if (!f || !book_make(&f->book) || !make_lock(&f->lock)) {
        free(f);
        return NULL;
    }
    memcpy(f->terms.address, address, 6);
    f->terms.epoch = epoch;
    f->terms.sequence = sequence;
    f->counts.raw_bytes = NEVER;
    for (int box = 0; box < INBOXES; box++)
        inbox_make(&f->inboxes[box]);
    return f;
}

void frames_free(struct frames *f) {
    pthread_mutex_destroy(&f->lock);
    book_free(&f->book);
    free(f->others);
    free(f);
}

void frames_hold(struct frames *f) { pthread_mutex_lock(&f->lock); }
void frames_release(struct frames *f) { pthread_mutex_unlock(&f->lock); }

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
void *frames_permitted(struct frames *f) { return f->book.taken; }

/* Tells of a member, whose window and figures the caller has put in its place. */
void frames_know(struct frames *f, uint32_t node, const uint8_t *mac, const uint8_t *enrolment, const uint8_t *to_leader,
                 const uint8_t *from_leader, const uint8_t *person) {
    struct peer *peer = &f->peers[node];
    memcpy(peer->mac, mac, 6);
    memcpy(peer->enrolment, enrolment, ENROLMENT);
    blake2s_keyed(peer->to_leader, to_leader, person);
    blake2s_keyed(peer->from_leader, from_leader, person);
    peer->known = 1;
    f->keys++;
    peer->batch = peer->directed = 0;
}

/* -- frames in ---------------------------------------------------------------------------------------------------- */

static void acknowledged(struct frames *f, struct peer *peer, uint32_t node, const uint8_t *body) {
    struct slot *slot = book_find(&f->book, read8(body));
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

static void gave_back(struct frames *f, struct peer *peer, uint32_t node, const uint8_t *body, int64_t now_ns) {
    uint64_t number = read8(body + 4);
    int64_t unspent_bytes = read4(body + 12);
    uint32_t at = f->counts.yields++;
    peer->yields++;
    f->watched[at] = (uint8_t)book_yielded(&f->book, number, unspent_bytes, now_ns);
    f->yields[at] = (struct returned){
        number > (uint64_t)HUGE ? HUGE : (int64_t)number, node, read4(body), unspent_bytes, (int64_t)read8(body + 16),
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

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void head(const struct frames *f, uint8_t *frame, const struct peer *peer, uint8_t kind, uint16_t length) {
    memcpy(frame, peer->mac, 6);
    memcpy(frame + 6, f->terms.address, 6);
    write2(frame + TYPE_AT, ETHERTYPE);
    write2(frame + MAGIC_AT, MAGIC);
    frame[VERSION_AT] = VERSION;
    frame[KIND_AT] = kind;
    write2(frame + FLAGS_AT, 0);
    write2(frame + LENGTH_AT, length);
    write4(frame + SENDER_AT, LEADER);
    write4(frame + EPOCH_AT, f->terms.epoch);
}

/* Numbers and tags a frame that stands `tag_bytes` into its room, puts the priority tag in, and returns its size. */
static uint32_t seal(struct frames *f, uint8_t *room, const struct peer *peer) {
    struct terms *terms = &f->terms;
    uint8_t *frame = room + terms->tag_bytes;
    uint32_t length = read2(frame + LENGTH_AT);
    write8(frame + SEQUENCE_AT, ++terms->sequence);
    blake2s_tag(peer->from_leader, frame, BODY + length, frame + BODY + length);
    if (terms->tag_bytes) {
        memmove(room, frame, TYPE_AT);
        memcpy(room + TYPE_AT, terms->tag, sizeof terms->tag);
    }
    return terms->tag_bytes + BODY + length + TAG;
}

/* Answers a PING that came at `stamp_ns` of the wall clock (0: not known). One by one: the time that it leaves is in the frame. */
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

static enum verdict take(struct frames *f, int fd, struct inbox *in, uint32_t at, int64_t now_ns) {
    verify(in, at, f->keys, &f->terms, f->peers);
    struct peer *peer = in->senders[at];
    if (!peer || !peer->known) /* it may have left since */
        return LEFT;
    const uint8_t *frame = in->frames[at], *body = frame + BODY;
    uint32_t node = read4(frame + SENDER_AT), length = read2(frame + LENGTH_AT);
    uint8_t kind = frame[KIND_AT];
    int proves = kind < 64 && AGAIN_AND_AGAIN & BIT(kind);
    if (!proves && !plain(f, kind, body, length))
        return LEFT;
    if (ends_batch(f, peer, kind))
        return LATER;
    if (!in->tagged[at] || !window_accepts(peer, read8(frame + SEQUENCE_AT)))
        return LEFT;
    peer->last_heard_ns = now_ns;
    if (proves)
        return PROVEN;
    f->counts.accepted++;
    if (kind == ACK)
        acknowledged(f, peer, node, body);
    else if (kind == YIELD)
        gave_back(f, peer, node, body, now_ns);
    else if (kind == PING)
        answer(f, fd, peer, body, stamp_of(in, at));
    else
        waits(f, node, body, length);
    return TAKEN;
}

/* Takes a batch from a socket, at most `most` frames; the batch ends before a frame that must not change places with one of it,
 * and with a frame that is not taken here. */
void frames_take(struct frames *f, int fd, uint32_t box, uint32_t most, int64_t now_ns) {
    struct inbox *in = &f->inboxes[box];
    struct counts *counts = &f->counts;
    if (in->next == in->count)
        receive(in, fd, most < MOST ? most : MOST);
    counts->accepted = counts->yields = counts->backlogs = counts->entries = counts->opened = counts->delayed = 0;
    counts->withheld = 0;
    counts->raw_bytes = NEVER;
    f->batch++;
    f->offsets[0] = 0;
    while (in->next < in->count) {
        uint32_t at = in->next;
        enum verdict verdict = take(f, fd, in, at, now_ns);
        if (verdict == LATER)
            break;
        in->next++;
        if (verdict != TAKEN) {
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

/* -- directives out ----------------------------------------------------------------------------------------------- */

/* Makes the frames that are filled, and sends them while the lease holds. */
static void flush(struct frames *f, int fd) {
    for (uint32_t at = 0; at < f->out_count; at++) {
        f->out_parts[at] = (struct iovec){f->out[at], seal(f, f->out[at], f->out_peers[at])};
        f->out_messages[at].msg_hdr = (struct msghdr){.msg_iov = &f->out_parts[at], .msg_iovlen = 1};
    }
    for (uint32_t at = 0; at < f->out_count;) {
        if (clock_ns(CLOCK_MONOTONIC) >= f->terms.until_ns) {
            f->counts.withheld += f->out_count - at;
            break;
        }
        uint32_t most = f->out_count - at < CHUNK ? f->out_count - at : CHUNK;
        int sent = sendmmsg(fd, f->out_messages + at, most, MSG_DONTWAIT);
        f->counts.sent += sent < 0 ? 0 : (uint32_t)sent;
        at += sent < 0 ? 1 : (uint32_t)sent; /* a frame that the interface could not take is lost, as any other may be */
    }
    f->out_count = 0;
    f->flush++;
}

/* Adds a grant to the directive that is being made for the member. */
static void direct(struct frames *f, const struct row *row, int64_t end_ns, int fd) {
    struct peer *peer = &f->peers[row->node];
    uint32_t before = f->terms.tag_bytes;
    if (peer->directed == f->flush && read2(f->out[peer->frame] + before + LENGTH_AT) == MOST_GRANTS * GRANT_BYTES)
        peer->directed = f->flush - 1; /* that frame is full */
    if (peer->directed != f->flush) {
        if (f->out_count == MOST)
            flush(f, fd);
        peer->directed = f->flush;
        peer->frame = f->out_count++;
        f->out_peers[peer->frame] = peer;
        head(f, f->out[peer->frame] + before, peer, DIRECTIVE, 0);
    }
    uint8_t *frame = f->out[peer->frame] + before;
    uint16_t length = read2(frame + LENGTH_AT);
    uint8_t *at = frame + BODY + length;
    write4(at, (uint32_t)row->destination);
    write8(at + 4, (uint64_t)row->slot);
    write8(at + 12, (uint64_t)row->start_ns);
    write8(at + 20, (uint64_t)end_ns);
    write4(at + 28, (uint32_t)row->bytes);
    write8(at + 32, (uint64_t)row->rate_bps);
    write2(frame + LENGTH_AT, (uint16_t)(length + GRANT_BYTES));
}

static int here(const struct frames *f, const struct row *row) {
    return (uint64_t)row->node < NODES && (uint64_t)row->destination < NODES && f->present[row->node];
}

/* Carries out a plan: takes back, grants, and keeps account of both; the first `watched` grants are told of later. What goes to
 * members unknown here is left to the caller, and named in `others`: the revokes first, as the plan has them. */
void frames_direct(struct frames *f, int fd, uint32_t revokes, const struct row *revoked, uint32_t grants,
                   const struct row *granted, uint32_t watched, int64_t now_ns) {
    f->counts.sent = f->counts.withheld = f->counts.others = 0;
    if (f->others_room < revokes + grants) {
        uint32_t *more = realloc(f->others, 2UL * (revokes + grants) * sizeof *more);
        if (!more)
            return;
        f->others = more;
        f->others_room = 2 * (revokes + grants);
    }
    if (!f->flush)
        f->flush = 1;
    for (uint32_t at = 0; at < revokes + grants; at++) {
        struct row row = at < revokes ? revoked[at] : granted[at - revokes];
        int64_t end_ns = row.end_ns;
        if (!here(f, &row))
            continue;
        if (at < revokes) {
            book_revoked(&f->book, (uint64_t)row.slot, now_ns);
            row.bytes = row.rate_bps = 0;
        } else {
            book_granted(&f->book, &row, now_ns, at - revokes < watched);
            f->peers[row.node].slots += f->peers[row.node].known;
            end_ns += row.rate_bps ? 0 : f->terms.grace_ns;
        }
        if (f->peers[row.node].known)
            direct(f, &row, end_ns, fd);
        else
            f->others[f->counts.others++] = at;
    }
    flush(f, fd);
}

/* -- single events, as the Python way has them -------------------------------------------------------------------- */

void frames_granted(struct frames *f, const struct row *row, int64_t now_ns) { book_granted(&f->book, row, now_ns, 1); }

void frames_revoked(struct frames *f, uint64_t number, int64_t now_ns) { book_revoked(&f->book, number, now_ns); }

void frames_yielded(struct frames *f, uint64_t number, int64_t unspent_bytes, int64_t now_ns) {
    book_yielded(&f->book, number, unspent_bytes, now_ns);
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

uint32_t frames_sweep(struct frames *f, int64_t then_ns, uint32_t least, uint64_t *found, uint32_t room) {
    return book_sweep(&f->book, then_ns, least, found, room);
}

void frames_lost(struct frames *f, uint64_t number) { book_lost(&f->book, number); }

void frames_left(struct frames *f, int64_t node) { book_left(&f->book, node); }

uint32_t frames_take_permitted(struct frames *f, int64_t now_ns) { return book_take(&f->book, now_ns); }

#include "loop.h"
