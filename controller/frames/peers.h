/* The members whose frames are taken here: keys, replay window, and the figures that frames change. */
#ifndef BATON_PEERS_H
#define BATON_PEERS_H
#include "blake2s.h"
#include "replay_window.h"
#include "wire.h"

#define NODES 0x4000 /* node ids are below this */
#define JUMP (1ULL << 40) /* see protocol/auth.py */
#define NEVER (-1)
#define WORDS 16 /* a host has one slot of a millisecond or more after the other: Python is seldom so far behind */
#define TOLD_OF 8 /* more destinations than most hosts send to at a time */
#define SAID_NS 100000000 /* what a host says is counted anew after so long */

/* What a YIELD said of one destination. Known to ctypes as `Word`. */
struct word {
    uint64_t sequence; /* of the frame; 0: none */
    int64_t bytes;     /* that wait for the destination */
    uint32_t destination;
};

/* Known to ctypes as `Peer`. */
struct peer {
    struct replay_window window;
    uint64_t backlog_sequence; /* of the last BACKLOG that was taken here, under this enrolment */
    uint64_t dropped_sequence; /* of the last YIELD taken here that is not among `words` any more, under this enrolment */
    int64_t last_heard_ns, slots, acknowledged, late, yields, lateness_ns, delay_ns;
    int64_t excess;  /* frames beyond `most_said`, which nobody read */
    int64_t told_ns; /* the delay that the policy knows; NEVER: none */
    int64_t backlog_ns; /* the time of the batch with the last BACKLOG that was taken here, under this enrolment */
    uint32_t to_leader[8], from_leader[8];
    uint8_t enrolment[ENROLMENT], mac[6];
    uint8_t known, kinds;    /* `kinds` of messages were taken in batch number `batch` */
    uint32_t batch;
    uint32_t directed, frame; /* `frame` is being filled for it in flush number `directed` */
    uint32_t next_word, said; /* `said` since `said_since_ns` */
    int64_t said_since_ns;
    struct word words[WORDS]; /* of the last YIELDs that were taken here, under this enrolment */
    uint16_t told_of[TOLD_OF]; /* destinations of backlogs that Python was told of; 0: none */
    uint32_t next_told, told_in; /* `told_of` and `idle` count while `frames.era` is `told_in` */
    uint64_t idle; /* what its last REPORT said, if it was idle and has said nothing of its queues since; else 0 */
};

/* Forgets what Python was told, if it may know less by now. */
static inline void peer_begin(struct peer *peer, uint32_t era) {
    if (peer->told_in == era)
        return;
    peer->told_in = era;
    peer->idle = 0;
    memset(peer->told_of, 0, sizeof peer->told_of);
}

/* Whether a sequence number is new, and no farther ahead than a host's may be; marks it as seen. */
static inline int peer_accepts(struct peer *peer, uint64_t sequence) {
    const struct replay_window *window = &peer->window;
    return (sequence <= window->highest || sequence - window->highest <= JUMP) && window_accepts(&peer->window, sequence);
}

/* Whether a host has said all that is read of one for now. */
static inline int peer_says_too_much(struct peer *peer, uint32_t most, int64_t now_ns) {
    if (now_ns - peer->said_since_ns >= SAID_NS) {
        peer->said_since_ns = now_ns;
        peer->said = 0;
    }
    return most && peer->said >= most;
}

#endif
