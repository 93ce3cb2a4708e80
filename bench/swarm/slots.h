/* A host's slots: the grants of a DIRECTIVE, what it sends in an open slot, ACK and YIELD. */
#ifndef BATON_SWARM_SLOTS_H
#define BATON_SWARM_SLOTS_H
#include "reports.h"

#define RATE_IDLE MS /* agents/permission/rate_use.py, which also looks farther apart, and learns from queues that ask again */
#define RATE_LOOK (16 * MS)

static void send_piece(struct swarm *s, struct host *h, struct target *t, struct piece made) {
    if (made.until_ns <= made.from_ns)
        return;
    if (t->piece_count == PIECES) {
        s->counts.not_taken++;
        return;
    }
    t->piece[t->piece_count++] = made;
    s->active[h - s->host] = 1;
}

/* Sends of an open slot what waits and what its credit lets pass, from then on. */
static void spend(struct swarm *s, struct host *h, struct target *t, int64_t from) {
    double bytes = s->always || t->backlog > t->unspent ? t->unspent : t->backlog;
    int64_t end = t->open.end_ns - h->error_ns;
    from = later(from, h->busy_until_ns);
    double fits = from < end ? (double)(end - from) * h->rate : 0;
    if (bytes > fits)
        bytes = fits;
    struct piece made = {from, from + (int64_t)(bytes / h->rate), h->rate, 0};
    send_piece(s, h, t, made);
    if (bytes > 0)
        h->busy_until_ns = made.until_ns;
    t->unspent -= bytes;
    t->backlog -= s->always ? 0 : bytes;
    t->check_ns = s->always || t->unspent < 1 ? NEVER : later(from, made.until_ns) + h->hysteresis_ns;
}

static void end_pieces(struct target *t, int64_t at_ns) {
    for (uint32_t at = 0; at < t->piece_count; at++)
        if (t->piece[at].by_rate)
            t->piece[at].until_ns = earlier(t->piece[at].until_ns, at_ns);
}

static void open_slot(struct swarm *s, struct host *h, struct target *t, struct slot slot) {
    int64_t opened = later(slot.start_ns - h->error_ns, slot.received_ns);
    int renewed = t->is_open && t->open.rate_bps;
    int64_t look = renewed ? t->check_ns : opened + RATE_IDLE;
    t->is_open = 1, t->open = slot, t->unspent = slot.bytes, t->check_ns = NEVER;
    end_pieces(t, opened);
    if (slot.rate_bps) {
        int64_t from = later(opened, s->stepped_ns); /* before, the model has sent at the rate that it knew */
        send_piece(s, h, t, (struct piece){from, slot.end_ns - h->error_ns, (double)slot.rate_bps / 8e9, 1});
        t->check_ns = s->always ? NEVER : look;
        t->was_empty &= renewed;
    } else {
        spend(s, h, t, opened);
    }
    send_frame(s, h, ACK, pack_ack(body(s), slot.number, s->node_of[t->host], (uint64_t)(slot.received_ns + h->error_ns),
                                   (uint64_t)(opened + h->error_ns)));
    s->counts.acks++;
    if (!h->served)
        h->served = 1, s->counts.served++, s->counts.last_served_ns = opened;
}

static void yield_slot(struct swarm *s, struct host *h, struct target *t) {
    t->is_open = 0, t->check_ns = NEVER;
    send_frame(s, h, YIELD, pack_yield(body(s), s->node_of[t->host], t->open.number, (uint32_t)t->unspent,
                                       (uint64_t)waiting(s, t)));
    s->counts.yields++;
}

/* Gives back a rate whose queue was empty at two looks, with no demand between them. */
static void look_at_rate(struct swarm *s, struct host *h, struct target *t, int64_t now) {
    if (t->backlog < 1 && t->was_empty) {
        end_pieces(t, now);
        yield_slot(s, h, t);
        return;
    }
    t->was_empty = t->backlog < 1;
    t->check_ns = now + later(RATE_IDLE, earlier(RATE_LOOK, (int64_t)(t->backlog * 8e9 / (double)t->open.rate_bps)));
}

/* Opens slots that have started, looks at open ones, and ends them. */
static void advance_slots(struct swarm *s, struct host *h, int64_t now) {
    h->slot_due_ns = NEVER;
    for (uint32_t at = 0; at < h->target_count; at++) {
        struct target *t = &h->target[at];
        if (t->is_open && now >= t->open.end_ns - h->error_ns) {
            if (!s->always && !t->open.rate_bps && t->backlog < 1 && t->unspent >= 1)
                yield_slot(s, h, t);
            t->is_open = 0, t->check_ns = NEVER;
        } else if (t->is_open && now >= t->check_ns) {
            if (t->open.rate_bps)
                look_at_rate(s, h, t, now);
            else if (t->backlog >= 1)
                spend(s, h, t, now);
            else
                yield_slot(s, h, t);
        }
        for (uint32_t each = 0; each < t->pending_count;) {
            struct slot slot = t->pending[each];
            if (now < slot.start_ns - h->error_ns) {
                h->slot_due_ns = earlier(h->slot_due_ns, slot.start_ns - h->error_ns);
                each++;
                continue;
            }
            memmove(t->pending + each, t->pending + each + 1, (--t->pending_count - each) * sizeof slot);
            if (now < slot.end_ns - h->error_ns)
                open_slot(s, h, t, slot);
        }
        if (t->is_open)
            h->slot_due_ns = earlier(h->slot_due_ns, earlier(t->check_ns, t->open.end_ns - h->error_ns));
    }
}

static void take_grant(struct swarm *s, struct host *h, struct target *t, const struct grant *g, int64_t came_ns) {
    struct slot slot = {g->slot, g->rate_bps, (int64_t)g->start_ns, (int64_t)g->end_ns, came_ns, g->bytes};
    int revoked = !g->bytes && !g->rate_bps;
    for (uint32_t each = 0; each < t->pending_count; each++)
        if (t->pending[each].number == g->slot) {
            slot.received_ns = t->pending[each].received_ns;
            t->pending[each] = slot;
            if (revoked)
                memmove(t->pending + each, t->pending + each + 1, (--t->pending_count - each) * sizeof slot);
            return;
        }
    if (t->is_open && t->open.number == g->slot) {
        if (revoked)
            t->is_open = 0, t->check_ns = NEVER, end_pieces(t, came_ns);
        else if (g->rate_bps && (g->rate_bps != t->open.rate_bps || slot.end_ns != t->open.end_ns))
            slot.start_ns = later(slot.start_ns, t->open.start_ns), open_slot(s, h, t, slot);
        return;
    }
    if (revoked || g->slot <= t->newest)
        return;
    t->newest = g->slot;
    s->counts.grants++, s->counts.granted_bytes += g->bytes, s->counts.rate_grants += g->rate_bps > 0;
    if (!g->rate_bps && came_ns > slot.start_ns) {
        s->counts.late++;
        s->counts.latest_ns = later(s->counts.latest_ns, came_ns - slot.start_ns);
    }
    if (t->pending_count < PENDING)
        t->pending[t->pending_count++] = slot;
    else
        s->counts.not_taken++;
}

static void forget_slots(struct target *t, int64_t now) {
    t->pending_count = t->is_open = 0, t->check_ns = NEVER;
    end_pieces(t, now);
}

static void on_directive(struct swarm *s, struct host *h, const uint8_t *at, uint32_t length, int64_t came_ns, int64_t now) {
    struct grant grants[MOST_BODY / 40];
    int32_t count = read_directive(at, length, grants, MOST_BODY / 40);
    s->counts.directives++;
    if (count < 0)
        s->counts.refused++;
    if (!h->enforcing)
        return;
    for (int32_t each = 0; each < count; each++) {
        struct target *t = target_at(s, h, grants[each].destination);
        if (t && t->regulated)
            take_grant(s, h, t, &grants[each], came_ns);
    }
    advance_slots(s, h, now);
}

#endif
