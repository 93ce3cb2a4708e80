/* What is due at a host, and when: registration, questions, reports, demands, and the end of a leader's silence. */
#ifndef BATON_SWARM_TIMERS_H
#define BATON_SWARM_TIMERS_H
#include "clock.h"
#include "membership.h"

static void reschedule(struct swarm *s, uint32_t number) {
    struct host *h = &s->host[number];
    int64_t due = NEVER;
    if (h->state == OFF)
        due = h->begin_ns;
    if (h->state == REGISTERING)
        due = earlier(h->register_ns, h->heard_ns + h->fail_open_ns);
    if (h->state == MEMBER) {
        due = earlier(earlier(h->ping_ns, h->report_due_ns), earlier(h->told_due_ns, h->look_ns));
        due = earlier(earlier(due, h->slot_due_ns), h->heard_ns + h->fail_open_ns);
    }
    if (h->state != OFF)
        due = earlier(due, h->arrival_ns);
    heap_move(&s->heap, number, due);
}

/* Whether the leader answers this host alone (agents/membership/answers.py). */
static void look(struct swarm *s, struct host *h, int64_t now) {
    int64_t third = h->fail_open_ns / QUESTIONS;
    if (!holds(s, h)) {
        h->free_ns = now, h->look_ns = now + third;
        return;
    }
    int64_t since = later(h->answered_ns, h->free_ns);
    if (s->drained_ns - since >= h->fail_open_ns) {
        s->counts.unanswered++;
        h->free_ns = now, h->retry_ns = REGISTER_RETRY;
        begin_registering(s, h, now);
        return;
    }
    if (now - later(since, h->asked_ns) >= third) {
        h->asked_ns = now;
        send_frame(s, h, PING, put(body(s), 0, 8));
        s->counts.questions++;
    }
    h->look_ns = later(now + 1, earlier(later(since, h->asked_ns) + third, since + h->fail_open_ns));
}

static void tell(struct swarm *s, struct host *h, int64_t now) {
    uint64_t error = h->synchronised ? h->best_delay_ns / 2 : 0, leader = h->synchronised ? (uint64_t)(now + h->error_ns) : 0;
    send_frame(s, h, HOST_STATE,
               pack_host_state(body(s), s->fingerprint, (uint64_t)(now + s->real_offset_ns), leader, error));
    send_frame(s, h, HOST_LINK, pack_host_link(body(s), h->rate_bps, (uint64_t)later(1, now - h->told_ns), 0));
    h->told_ns = now, h->told_due_ns = paced(h, TELL_EVERY, NEWS_REPORTS, now);
}

/* A demand arrives for one of the destinations. */
static void arrive(struct swarm *s, struct host *h, int64_t now) {
    struct target *t = &h->target[chance(&h->random) % h->target_count];
    double bytes = -__builtin_log(1 - share(&h->random)) * s->mean_bytes;
    int fresh = t->backlog < 1;
    h->arrival_ns = now + 1 + (int64_t)(-__builtin_log(1 - share(&h->random)) * s->mean_bytes / (s->load_rate * h->rate));
    t->backlog += bytes < MOST_FRAME ? MOST_FRAME : bytes, t->was_empty = 0;
    s->active[h - s->host] = 1;
    if (fresh && gated(h, t) && !t->is_open)
        send_backlog(s, h);
}

static void serve(struct swarm *s, uint32_t number, int64_t now) {
    struct host *h = &s->host[number];
    s->counts.behind_ns = later(s->counts.behind_ns, now - s->heap.due[number]);
    if (h->state == OFF && now >= h->begin_ns)
        h->state = LISTENING;
    if ((h->state == MEMBER || h->state == REGISTERING) && s->drained_ns >= h->heard_ns + h->fail_open_ns) {
        s->counts.silent += h->state == MEMBER;
        set_state(s, h, h->state == MEMBER ? FAIL_OPEN : LISTENING, now);
        set_enforcing(s, h, now);
    }
    if (h->state == REGISTERING && now >= h->register_ns)
        send_register(s, h, now);
    if (h->state != OFF && now >= h->arrival_ns)
        arrive(s, h, now);
    if (h->state == MEMBER) {
        if (now >= h->slot_due_ns)
            advance_slots(s, h, now);
        if (now >= h->ping_ns)
            send_ping(s, h, now);
        if (now >= h->report_due_ns) {
            h->report_due_ns = h->report_ns >= SECOND ? paced(h, 0, 1, now) : now + h->report_ns;
            send_report(s, h, now);
        }
        if (now >= h->told_due_ns)
            tell(s, h, now);
        if (now >= h->look_ns)
            look(s, h, now);
    }
    reschedule(s, number);
}

#endif
