/* The state of a coordinator's frames: what the last batch held, the members, and the batches in and out. A part of
 * frames.c. */
#ifndef BATON_FRAMES_STATE_H
#define BATON_FRAMES_STATE_H

#include "book.h"
#include "inbox.h"
#include "lock.h"

enum { INBOXES = 2 };

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
    struct lock lock; /* of all this, and of the policy's cores, where a loop serves (loop.h) */
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
    uint32_t gathers; /* batches are told together (gathered.h): `batch` grows when they are */
    uint32_t era;     /* grows when Python forgets, with a policy or a member, what it was told of pairs and reports */
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

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

#endif
