/* Frames received from a socket and not taken yet: who sent them, and whether their tags say so, too. A part of frames.c. */
#ifndef BATON_INBOX_H
#define BATON_INBOX_H
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "blake2s_lanes.h"
#include "peers.h"

#define MOST 256 /* frames received or sent at once */
#define ROOM 2048
#define STAMP_ROOM 64
#define SECOND_NS 1000000000LL
#define TYPE_TIMESTAMP 35 /* SO_TIMESTAMPNS */

/* Known to ctypes as `Terms`. */
struct terms {
    uint64_t sequence; /* of the leader's last frame */
    int64_t grace_ns, late_ns;
    int64_t until_ns; /* it may send before: its lease */
    uint32_t epoch, tag_bytes;
    uint32_t most_said; /* frames of one host of which Python has to know, in SAID_NS; 0: any number */
    uint8_t address[6], tag[4];
};

struct inbox {
    struct mmsghdr messages[MOST];
    struct iovec parts[MOST];
    uint8_t stamps[MOST][STAMP_ROOM];
    uint8_t frames[MOST][ROOM];
    struct peer *senders[MOST]; /* of those before `verified`: the member whom the frame names, or NULL */
    uint8_t tagged[MOST];       /* of those: whether it has that member's tag */
    uint32_t next, count, full, verified;
    uint32_t keys; /* for which keys of the members that is so, by their number (`frames.keys`) */
};

static void inbox_make(struct inbox *in) {
    for (int at = 0; at < MOST; at++) {
        in->parts[at] = (struct iovec){in->frames[at], ROOM};
        in->messages[at].msg_hdr.msg_iov = &in->parts[at];
        in->messages[at].msg_hdr.msg_iovlen = 1;
        in->messages[at].msg_hdr.msg_control = in->stamps[at];
    }
}

static void receive(struct inbox *in, int fd, uint32_t most) {
    for (uint32_t at = 0; at < most; at++)
        in->messages[at].msg_hdr.msg_controllen = STAMP_ROOM;
    int count = recvmmsg(fd, in->messages, most, MSG_DONTWAIT, NULL);
    in->next = in->verified = 0;
    in->count = count < 0 ? 0 : (uint32_t)count;
    in->full = in->count == most;
}

/* When the kernel received a frame, by the wall clock; 0: not known. */
static int64_t stamp_of(const struct inbox *in, uint32_t at) {
    struct msghdr *header = (struct msghdr *)&in->messages[at].msg_hdr;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == TYPE_TIMESTAMP) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(part), sizeof stamp);
            return stamp.tv_sec * SECOND_NS + stamp.tv_nsec;
        }
    return 0;
}

/* The member whom a frame of the right form names, and to this leader; NULL: there is none. Its tag is not looked at. */
static inline struct peer *sender_of(const struct inbox *in, uint32_t at, const struct terms *terms, struct peer *peers) {
    const uint8_t *frame = in->frames[at];
    uint32_t size = in->messages[at].msg_len;
    if (size < SHORTEST || read2(frame + TYPE_AT) != ETHERTYPE || read2(frame + MAGIC_AT) != MAGIC ||
        frame[VERSION_AT] != VERSION || read2(frame + FLAGS_AT))
        return NULL;
    uint32_t node = read4(frame + SENDER_AT), length = read2(frame + LENGTH_AT);
    if (node >= NODES || size != BODY + length + ENROLMENT + TAG)
        return NULL;
    struct peer *peer = &peers[node];
    if (!peer->known || memcmp(frame, terms->address, 6) || memcmp(frame + 6, peer->mac, 6) ||
        read4(frame + EPOCH_AT) != terms->epoch || memcmp(frame + BODY + length, peer->enrolment, ENROLMENT))
        return NULL;
    return peer;
}

/* Looks at the tags of the next frames, as many as the processor takes at once. */
static void verify_next(struct inbox *in, const struct terms *terms, struct peer *peers) {
    struct blake2s_tagged all[BLAKE2S_LANES];
    uint32_t places[BLAKE2S_LANES], count = 0;
    for (; in->verified < in->count && count < BLAKE2S_LANES; in->verified++) {
        struct peer *peer = in->senders[in->verified] = sender_of(in, in->verified, terms, peers);
        in->tagged[in->verified] = 0;
        if (!peer)
            continue;
        const uint8_t *frame = in->frames[in->verified];
        uint32_t length = BODY + read2(frame + LENGTH_AT) + ENROLMENT;
        places[count] = in->verified;
        all[count++] = (struct blake2s_tagged){peer->to_leader, frame, frame + length, length};
    }
    uint32_t holds = blake2s_verify_all(all, count);
    for (uint32_t one = 0; one < count; one++)
        in->tagged[places[one]] = holds >> one & 1;
}

/* Has sender and tag of a frame known. The keys of members are those of number `keys`. */
static inline void verify(struct inbox *in, uint32_t at, uint32_t keys, const struct terms *terms, struct peer *peers) {
    if (in->keys != keys) {
        in->keys = keys;
        in->verified = at;
    }
    if (at >= in->verified)
        verify_next(in, terms, peers);
}

#endif
