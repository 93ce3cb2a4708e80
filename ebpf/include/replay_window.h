/* Which of a sender's frames were taken, as protocol.auth.ReplayWindow knows it: the last 64 sequence numbers. */
#ifndef BATON_REPLAY_WINDOW_H
#define BATON_REPLAY_WINDOW_H
#include <stdint.h>

#define WINDOW 64

struct replay_window {
    uint64_t highest, seen; /* bit n of `seen`: highest - n */
};

/* Whether a sequence number is new; marks it as seen. */
static inline int window_accepts(struct replay_window *window, uint64_t sequence) {
    if (sequence > window->highest) {
        uint64_t ahead = sequence - window->highest;
        window->seen = ahead < WINDOW ? window->seen << ahead | 1 : 1;
        window->highest = sequence;
        return 1;
    }
    uint64_t behind = window->highest - sequence;
    if (behind >= WINDOW || window->seen >> behind & 1)
        return 0;
    window->seen |= 1ULL << behind;
    return 1;
}

#endif
