/* A host's estimate of its leader's clock: PING and CLOCK_REPORT out, PONG in. */
#ifndef BATON_SWARM_CLOCK_H
#define BATON_SWARM_CLOCK_H
#include "agent.h"

static void send_ping(struct swarm *s, struct host *h, int64_t now) {
    h->pings++;
    h->ping_ns = h->pings > FIRST_PINGS ? paced(h, PING_EVERY, 1, now) : now + PING_FIRST;
    if (h->synchronised && (h->pings == FIRST_PINGS || h->pings % 5 == 0)) {
        uint64_t error = h->best_delay_ns / 2 + (uint64_t)(now + h->skew_ns - h->best_ns) / SECOND * DRIFT_PPB;
        send_frame(s, h, CLOCK_REPORT, put(put(body(s), (uint64_t)(h->error_ns - h->skew_ns), 8), error, 8));
    }
    send_frame(s, h, PING, put(body(s), (uint64_t)(clock_ns(CLOCK_MONOTONIC) + h->skew_ns), 8));
    s->counts.pings++;
}

/* RFC 5905 section 8; the sample with the least delay counts, the older the less. */
static void on_pong(struct swarm *s, struct host *h, const uint8_t *at, int64_t came_ns) {
    int64_t sent = (int64_t)get(at, 8), received = (int64_t)get(at + 8, 8), replied = (int64_t)get(at + 16, 8);
    s->counts.pongs++;
    if (!sent)
        return;
    int64_t came = came_ns + h->skew_ns, delay = (came - sent) - (replied - received);
    s->counts.answer_ns = later(s->counts.answer_ns, came - sent);
    if (delay < 0)
        return;
    int64_t aged = (int64_t)h->best_delay_ns + 2 * (came - h->best_ns) / SECOND * DRIFT_PPB;
    if (h->synchronised && delay > aged)
        return;
    h->synchronised = 1, h->best_delay_ns = (uint64_t)delay, h->best_ns = came;
    h->error_ns = ((received - sent) + (replied - came)) / 2 + h->skew_ns;
    if (h->pings >= FIRST_PINGS)
        s->counts.clock_error_ns = later(s->counts.clock_error_ns, llabs(h->error_ns));
}

#endif
