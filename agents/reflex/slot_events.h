/* The classifier's events as the slot reflex takes them: what agents/queues/classifier.py and Gatekeeper.backlogged do when the
 * first packet to a destination comes. The layout of the ring buffer is the kernel's (kernel/bpf/ringbuf.c, linux/bpf.h). */
#ifndef BATON_SLOT_EVENTS_H
#define BATON_SLOT_EVENTS_H
#include "slot_keeper.h"

enum { BACKLOGGED = 2, KIND_AND_NODE = 8 }; /* agents/bpf/classify.h */
enum { HEADER = 8, MOST_TAKEN = 16 };
#define BUSY (1U << 31)
#define DISCARDED (1U << 30)

static void backlogged(struct slots *s, uint32_t at, int64_t now_ns) {
    struct destination *d = &s->destination[at];
    if (d->open && d->waiting_bytes)
        return;
    d->named = 1;
    s->reported++;
    if (!d->waiting_bytes)
        d->reported_ns = now_ns;
    struct state state = gate_state(s, &s->gate[at]);
    if (s->refused_errno)
        return;
    d->waiting_bytes = state.backlog > LONGEST ? state.backlog : LONGEST;
    send_backlog(s);
    if (s->terms.poll_ns)
        s->terms.poll_until_ns = now_ns + s->terms.poll_ns;
}

/* 0: the event is not for here. */
static int take_event(struct slots *s, const uint8_t *event, uint32_t bytes, int64_t now_ns) {
    uint32_t kind, node;
    if (bytes < KIND_AND_NODE)
        return 0;
    memcpy(&kind, event, sizeof kind);
    memcpy(&node, event + sizeof kind, sizeof node);
    uint32_t at = place_of(s, node);
    if (kind != BACKLOGGED || at == DESTINATIONS)
        return 0;
    backlogged(s, at, now_ns);
    return 1;
}

/* Takes events up to the first that is the agent's; returns whether there is such. */
static int take_events(struct slots *s, int64_t now_ns) {
    struct ring *ring = &s->ring;
    if (!ring->consumed)
        return 1;
    for (int taken = 0; taken < MOST_TAKEN && !s->refused_errno; taken++) {
        uint64_t consumed = *ring->consumed;
        if (consumed == __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE))
            return 0;
        const uint8_t *record = ring->records + (consumed & (ring->bytes - 1));
        uint32_t length = __atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
        if (length & BUSY)
            return 0;
        uint32_t bytes = length & ~DISCARDED;
        if (!(length & DISCARDED) && !take_event(s, record + HEADER, bytes, now_ns))
            return 1;
        __atomic_store_n(ring->consumed, consumed + ((HEADER + bytes + 7) & ~7U), __ATOMIC_RELEASE);
    }
    return 0;
}

#endif
