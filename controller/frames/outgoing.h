/* Frames to members: it makes their heads and tags, and sends a plan's directives in batches while the lease holds. A part of
 * frames.c. */
#ifndef BATON_FRAMES_OUTGOING_H
#define BATON_FRAMES_OUTGOING_H
#include "state.h"

#define CHUNK 32 /* frames sent between two looks at the lease */

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

#endif
