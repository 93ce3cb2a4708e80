/* A step of the links' model: what each host puts on its link, and how far the model moves in a turn. */
#ifndef BATON_SWARM_STEP_H
#define BATON_SWARM_STEP_H
#include "reports.h"

#define TURN_STEPS 256
#define SOON 4
#define BEHIND (100 * MS) /* a model that is so far behind hurries */

/* What a host puts on its link in the time that ends at `end`, so long; whether it sends on. */
static int put_step(struct swarm *s, struct host *h, int64_t end, int64_t length) {
    double used = 0;
    uint32_t going = 0, free = 0;
    for (uint32_t at = 0; at < h->target_count; at++) {
        struct target *t = &h->target[at];
        __builtin_prefetch(t + SOON);
        for (uint32_t each = 0; each < t->piece_count;) {
            struct piece *p = &t->piece[each];
            int64_t until = earlier(p->until_ns, end);
            if (until > p->from_ns) {
                double bytes = (double)(until - p->from_ns) * p->rate;
                if (p->by_rate && !s->always) { /* what waits leaves as it comes, up to the rate */
                    bytes = bytes < t->backlog ? bytes : t->backlog;
                    t->backlog -= bytes;
                }
                links_put(s->links, t->flow, bytes);
                t->unreported += bytes, used += bytes;
                p->from_ns = until;
            }
            if (p->from_ns >= p->until_ns)
                *p = t->piece[--t->piece_count];
            else
                each++;
        }
        going += t->piece_count;
        free += !gated(h, t) && waits(s, t);
    }
    double room = h->rate * (double)length - used;
    for (uint32_t at = 0, left = free; at < h->target_count && left && room > 0; at++) {
        struct target *t = &h->target[at];
        if (gated(h, t) || !waits(s, t))
            continue;
        double bytes = room / left--;
        if (!s->always && bytes > t->backlog)
            bytes = t->backlog;
        links_put(s->links, t->flow, bytes);
        t->unreported += bytes, room -= bytes;
        t->backlog -= s->always ? 0 : bytes;
    }
    return going || free;
}

static void step(struct swarm *s, uint32_t many) {
    int64_t length = s->step_ns * many;
    s->stepped_ns += length;
    for (uint32_t number = 0; number < s->hosts; number++)
        if (s->active[number])
            s->active[number] = (uint8_t)put_step(s, &s->host[number], s->stepped_ns, length);
    links_step(s->links, many);
}

/* Moves the model up to that time, or as far as it gets in so long: frames do not wait for it longer. */
static void advance_links(struct swarm *s, int64_t until, int64_t most) {
    int64_t began = clock_ns(CLOCK_MONOTONIC);
    s->counts.model_behind_ns = later(s->counts.model_behind_ns, until - s->stepped_ns);
    for (uint32_t done = 0; done < TURN_STEPS; done++) {
        uint32_t many = links_together(s->links, until - s->stepped_ns > BEHIND);
        if (s->stepped_ns + s->step_ns * many > until || (done && clock_ns(CLOCK_MONOTONIC) - began > most))
            return;
        step(s, many);
    }
}

#endif
