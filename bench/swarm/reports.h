/* What waits at a host's gate, and the frames that say so: BACKLOG and REPORT. */
#ifndef BATON_SWARM_REPORTS_H
#define BATON_SWARM_REPORTS_H
#include "agent.h"

static inline int waits(const struct swarm *s, const struct target *t) { return s->always || t->backlog >= 1; }
static inline double waiting(const struct swarm *s, const struct target *t) { return s->always ? QUEUE_BYTES : t->backlog; }
static inline int gated(const struct host *h, const struct target *t) { return h->enforcing && t->regulated; }

static int holds(const struct swarm *s, const struct host *h) {
    for (uint32_t at = 0; at < h->target_count; at++)
        if (gated(h, &h->target[at]) && !h->target[at].is_open && waits(s, &h->target[at]))
            return 1;
    return 0;
}

static void send_backlog(struct swarm *s, struct host *h) {
    struct flow_entry entry[PAGE_ENTRIES];
    uint32_t count = 0, waiting_targets = 0, page = 0;
    for (uint32_t at = 0; at < h->target_count; at++)
        waiting_targets += gated(h, &h->target[at]) && waits(s, &h->target[at]);
    uint32_t pages = waiting_targets ? (waiting_targets + PAGE_ENTRIES - 1) / PAGE_ENTRIES : 1;
    h->backlog_number++;
    for (uint32_t at = 0; at <= h->target_count; at++) {
        if (at < h->target_count && gated(h, &h->target[at]) && waits(s, &h->target[at]))
            entry[count++] = (struct flow_entry){s->node_of[h->target[at].host], (uint64_t)waiting(s, &h->target[at]), 0};
        if (count == PAGE_ENTRIES || (at == h->target_count && (count || !page))) {
            send_frame(s, h, BACKLOG, pack_backlog(body(s), h->backlog_number, page++, pages, entry, count));
            s->counts.backlogs++;
            count = 0;
        }
    }
}

static void send_report(struct swarm *s, struct host *h, int64_t now) {
    struct flow_entry entry[PAGE_ENTRIES];
    uint32_t count = 0, sending = 0, page = 0;
    for (uint32_t at = 0; at < h->target_count; at++)
        sending += h->target[at].unreported >= 1;
    uint32_t pages = sending ? (sending + PAGE_ENTRIES - 1) / PAGE_ENTRIES : 1;
    uint64_t period = (uint64_t)later(1, now - h->reported_ns);
    h->report_number++, h->reported_ns = now;
    for (uint32_t at = 0; at <= h->target_count; at++) {
        struct target *t = h->target + at;
        if (at < h->target_count && t->unreported >= 1) {
            entry[count++] = (struct flow_entry){s->node_of[t->host], (uint64_t)t->unreported, (uint64_t)waiting(s, t)};
            t->unreported = 0;
        }
        if (count == PAGE_ENTRIES || (at == h->target_count && (count || !page))) {
            send_frame(s, h, REPORT, pack_report(body(s), h->report_number, period, page++, pages, entry, count));
            s->counts.reports++;
            count = 0;
        }
    }
    if (h->enforcing && h->regulates)
        send_backlog(s, h);
}

#endif
