/* A host's agent, as agents/ does it: registration, clock, reports, slots. Times are the machine's monotonic clock unless a
 * name says otherwise; a host's own clock is that plus `skew_ns`, and its estimate of the leader's is off by `error_ns`. */
#ifndef BATON_SWARM_AGENT_H
#define BATON_SWARM_AGENT_H
#include "hosts.h"

#define REGISTER_RETRY (50 * MS)
#define REGISTER_RETRY_MOST (1600 * MS)
#define ASK (100 * MS)
#define ASK_MOST (3200 * MS)
#define MOST_GROUP_TRIES 6
#define PING_EVERY (200 * MS)
#define PING_FIRST (5 * MS)
#define TELL_EVERY (2 * SECOND)
#define OPENING (5 * MS)
#define PACE_MOST (10 * SECOND)
#define FIRST_PINGS 16
#define QUESTIONS 3
#define DRIFT_PPB 20000
#define FRAME_BYTES 1514
#define PAGE_ENTRIES 69 /* fit into a page of a REPORT; of a BACKLOG one more */
#define QUEUE_BYTES 1514000 /* what waits at the gate of a sender that always sends: 1,000 packets */

struct counts {
    uint64_t received, sent, refused, unknown, dropped_in, dropped_out;
    uint64_t registers, welcomes, backlogs, directives, grants, late, acks, yields, reports, pings, pongs, questions, errors;
    uint64_t silent, unanswered, not_taken, granted_bytes, rate_grants;
    int64_t members, served, last_member_ns, last_served_ns, latest_ns, gap_ns, answer_ns, clock_error_ns, turn_ns, behind_ns, awaiting, stepped_ns;
    int64_t epoch, current; /* the highest epoch heard, and the members under it */
};

struct swarm {
    int fd;
    uint32_t hosts, nodes, *host_of_node;
    int64_t step_ns, stepped_ns, drained_ns, real_offset_ns, served_ns, asked_ns;
    uint64_t lose, random, fingerprint;     /* lose: of 2^32 */
    double load_rate, mean_bytes;           /* of demands that come at random; 0: all always send */
    uint8_t always, override_free, uncoordinated;
    uint32_t address;
    struct host *host;
    uint8_t *active;
    uint32_t *node_of;                      /* by host, as the newest directory says */
    struct target *targets;
    struct links *links;
    struct heap heap;
    struct counts counts;
    uint64_t unknown[KINDS], most_late_ns;
    uint32_t out_count, out_bytes[OUT], group_bytes;
    int64_t group_ns;
    uint32_t in_next, in_count, in_bytes[BATCH]; /* of the batch that was read last */
    int64_t in_ns[BATCH];
    uint8_t out_pings;
    uint8_t (*out)[MOST_FRAME], (*in)[MOST_FRAME], group[MOST_FRAME];
};

static void flush(struct swarm *s);
static void reschedule(struct swarm *s, uint32_t number);

static inline int lost(struct swarm *s) { return s->lose && (uint32_t)chance(&s->random) < s->lose; }

/* The body of the next frame to be sent. */
static inline uint8_t *body(struct swarm *s) {
    if (s->out_count == OUT)
        flush(s);
    return s->out[s->out_count] + AT_BODY;
}

static void send_frame(struct swarm *s, struct host *h, enum kind kind, const uint8_t *end) {
    uint8_t *frame = s->out[s->out_count];
    uint32_t bytes = (uint32_t)(end - frame - AT_BODY);
    h->sequence++;
    if (lost(s)) {
        s->counts.dropped_out++;
        return;
    }
    s->out_bytes[s->out_count++] =
        seal(frame, kind, bytes, h->leader_mac, h->mac, h->node, h->epoch, h->sequence, h->enrolment, h->to_leader);
    if (kind == PING)
        s->out_pings = 1;
}

/* When to do a thing of this period again: where the leader wants reports less often, with them (agents/loop/pace.py). */
static int64_t paced(const struct host *h, int64_t own_ns, int64_t now) {
    int64_t period = later(own_ns, earlier(PACE_MOST, h->report_ns));
    return now + period - (period > own_ns ? (now + h->skew_ns) % period : 0);
}

/* -- what waits -- */

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

/* -- slots -- */

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
    t->is_open = 1, t->open = slot, t->unspent = slot.bytes, t->check_ns = NEVER;
    end_pieces(t, opened);
    if (slot.rate_bps) {
        double rate = (double)slot.rate_bps / 8e9;
        int64_t until = slot.end_ns - h->error_ns;
        if (!s->always)
            until = earlier(until, opened + (int64_t)(t->backlog / rate));
        send_piece(s, h, t, (struct piece){opened, until, rate, 1});
        if (!s->always && until > opened)
            t->backlog -= rate * (double)(until - opened);
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
            if (t->backlog >= 1)
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

/* -- membership -- */

static void set_state(struct swarm *s, struct host *h, enum state state, int64_t now) {
    if ((state == MEMBER) != (h->state == MEMBER)) {
        s->counts.members += state == MEMBER ? 1 : -1;
        if (state == MEMBER)
            s->counts.last_member_ns = now;
    }
    h->state = state;
}

static void set_enforcing(struct swarm *s, struct host *h, int64_t now) {
    uint8_t wanted = h->state == MEMBER && !s->override_free;
    if (wanted == h->enforcing)
        return;
    h->enforcing = wanted;
    s->active[h - s->host] = 1;
    for (uint32_t at = 0; at < h->target_count; at++)
        forget_slots(&h->target[at], now);
    if (wanted && h->regulates)
        send_backlog(s, h);
}

static void send_register(struct swarm *s, struct host *h, int64_t now) {
    send_frame(s, h, REGISTER, pack_register(body(s), h->nonce, h->rate_bps, h->name, "swarm", h->address));
    s->counts.registers++;
    h->register_ns = now + (int64_t)((double)h->retry_ns * (1 - share(&h->random) / 2));
    h->retry_ns = earlier(2 * h->retry_ns, REGISTER_RETRY_MOST);
}

static void begin_registering(struct swarm *s, struct host *h, int64_t now) {
    set_state(s, h, REGISTERING, now);
    set_enforcing(s, h, now);
    h->ping_ns = h->report_due_ns = h->told_due_ns = NEVER;
    send_register(s, h, now);
}

static void new_leader(struct swarm *s, struct host *h, uint32_t epoch, const uint8_t mac[6], int64_t now) {
    h->epoch = epoch, h->nonce++, h->heard_sequence = h->seen = 0, h->synchronised = 0, h->pings = 0, h->error_ns = 0;
    memcpy(h->leader_mac, mac, 6);
    memset(&h->directory, 0, sizeof h->directory);
    memset(&h->regulation, 0, sizeof h->regulation);
    memset(&h->groups, 0, sizeof h->groups);
    h->ask_groups_ns = 0, h->group_tries = 0;
    h->ask_ns = 0, h->ask_after_ns = ASK, h->regulates = 0, h->retry_ns = REGISTER_RETRY;
    s->counts.served -= h->served, h->served = 0;
    for (uint32_t at = 0; at < h->target_count; at++)
        forget_slots(&h->target[at], now), h->target[at].regulated = h->target[at].named = 0, h->target[at].newest = 0;
    begin_registering(s, h, now);
}

static void send_request(struct swarm *s, struct host *h, uint64_t version) {
    send_frame(s, h, DIRECTORY_REQUEST, put(body(s), version, 8));
}

/* The version of the groups that it has; 0 for none. */
static void ask_groups(struct swarm *s, struct host *h) {
    send_frame(s, h, GROUPS_REQUEST, put(body(s), h->groups.version ? h->groups.version - 1 : 0, 8));
}

/* The leader's groups are of this version: asks for them, if ours are not (agents/membership/membership.py). */
static void look_at_groups(struct swarm *s, struct host *h, uint64_t version, int64_t now) {
    if (h->groups.version == version + 1) {
        h->ask_groups_ns = 0, h->group_tries = 0;
    } else if (!h->ask_groups_ns) {
        h->ask_groups_ns = now + (int64_t)((double)ASK * (1 + share(&h->random)));
    } else if (now >= h->ask_groups_ns && (h->groups.version || h->group_tries < MOST_GROUP_TRIES)) {
        int64_t after = earlier(ASK << (++h->group_tries < 8 ? h->group_tries : 8), ASK_MOST);
        h->ask_groups_ns = now + (int64_t)((double)after * (1 - share(&h->random) / 2));
        ask_groups(s, h);
    }
}

static void on_welcome(struct swarm *s, struct host *h, const uint8_t *at, int64_t now) {
    if (get(at, 8) != h->nonce || h->state == LISTENING)
        return;
    uint32_t node = (uint32_t)get(at + 8, 4);
    int64_t fail_open = (int64_t)get(at + 20, 8);
    int first = node != h->node || h->state != MEMBER;
    s->counts.welcomes++;
    h->node = node, h->fail_open_ns = later(fail_open / 2, fail_open - OPENING);
    h->hysteresis_ns = (int64_t)get(at + 28, 8), h->report_ns = (int64_t)get(at + 52, 8);
    h->retry_ns = REGISTER_RETRY, h->register_ns = NEVER, h->answered_ns = now;
    set_state(s, h, MEMBER, now);
    ask_groups(s, h);
    if (!first)
        return;
    send_request(s, h, 0);
    h->ping_ns = h->synchronised ? paced(h, PING_EVERY, now) : now, h->look_ns = now + h->fail_open_ns / QUESTIONS;
    h->reported_ns = now, h->told_ns = now, h->told_due_ns = paced(h, TELL_EVERY, now);
    h->report_due_ns = h->report_ns >= SECOND ? paced(h, 0, now) : now + h->report_ns;
    h->free_ns = now;
    set_enforcing(s, h, now);
}

/* Notes a page; whether its state is whole now. */
static int take_page(struct paged *p, uint64_t version, const uint8_t *at, int *fresh) {
    uint32_t page = (uint32_t)get(at, 2), pages = (uint32_t)get(at + 2, 2);
    *fresh = 0;
    if (version <= p->version || version < p->coming || page >= pages || pages > PAGES)
        return 0;
    if (version != p->coming || pages != p->pages) {
        p->coming = version, p->pages = pages, p->got = 0, *fresh = 1;
        memset(p->has, 0, sizeof p->has);
    }
    p->got += !(p->has[page / 8] >> page % 8 & 1);
    p->has[page / 8] |= (uint8_t)(1 << page % 8);
    if (p->got < p->pages)
        return 0;
    p->version = version;
    return 1;
}

/* A node has these addresses; returns where they end. */
static const uint8_t *take_addresses(struct swarm *s, uint32_t node, uint32_t addresses, const uint8_t *at, const uint8_t *end) {
    for (; addresses && at < end; addresses--) {
        if (*at == 4 && at + 5 <= end) {
            uint32_t number = (uint32_t)get(at + 1, 4) - s->address;
            if (number < s->hosts && node < s->nodes)
                s->node_of[number] = node, s->host_of_node[node] = number;
        }
        at += *at == 4 ? 5 : 17;
    }
    return at;
}

static void take_entries(struct swarm *s, const uint8_t *at, const uint8_t *end) {
    for (at += 12; at + 5 <= end;)
        at = take_addresses(s, (uint32_t)get(at, 4), at[4], at + 5, end);
}

static void on_directory(struct swarm *s, struct host *h, const uint8_t *at, const uint8_t *end) {
    int fresh;
    take_page(&h->directory, get(at, 8), at + 8, &fresh);
    take_entries(s, at, end);
}

/* A change that is told to this host alone, as it asked for it. */
static void on_change(struct swarm *s, struct host *h, const uint8_t *at, const uint8_t *end) {
    uint64_t base = get(at, 8), version = get(at + 8, 8);
    if (h->directory.version >= base && h->directory.version < version)
        h->directory.version = version;
    for (at += 16; at + 6 <= end;) {
        uint32_t node = (uint32_t)get(at, 4);
        if (node < s->nodes && !at[4])
            s->host_of_node[node] = UINT32_MAX;
        at = take_addresses(s, node, at[5], at + 6, end);
    }
}

static struct target *target_at(struct swarm *s, struct host *h, uint32_t node) {
    uint32_t number = node < s->nodes ? s->host_of_node[node] : UINT32_MAX;
    for (uint32_t at = 0; at < h->target_count; at++)
        if (h->target[at].host == number)
            return &h->target[at];
    return NULL;
}

/* The destinations marked `named` are those that are regulated now. */
static void apply_regulation(struct swarm *s, struct host *h, int64_t now) {
    int added = 0;
    h->regulates = 0;
    for (uint32_t at = 0; at < h->target_count; at++) {
        struct target *t = &h->target[at];
        if (t->regulated && !t->named)
            forget_slots(t, now);
        added |= t->named && !t->regulated && waits(s, t);
        t->regulated = t->named;
        h->regulates |= t->named;
    }
    s->active[h - s->host] = 1;
    if (h->enforcing && added)
        send_backlog(s, h);
}

static void on_regulate(struct swarm *s, struct host *h, const uint8_t *at, const uint8_t *end, int64_t now) {
    int fresh;
    if (h->groups.version && now >= h->told_groups_ns + SECOND) /* our request was lost */
        h->told_groups_ns = now, ask_groups(s, h);
    if (h->groups.version)
        return;
    int done = take_page(&h->regulation, get(at, 8), at + 8, &fresh);
    if (get(at, 8) != h->regulation.coming)
        return;
    if (fresh)
        for (uint32_t each = 0; each < h->target_count; each++)
            h->target[each].named = 0;
    for (at += 12; at + 4 <= end; at += 4) {
        struct target *t = target_at(s, h, (uint32_t)get(at, 4));
        if (t)
            t->named = 1;
    }
    if (done)
        apply_regulation(s, h, now);
}

/* An answer to one host: what the groups say, Python reads; which version the host has, we keep. */
static void on_groups(struct host *h, const uint8_t *at) {
    int fresh;
    uint64_t base = get(at, 8);
    if (!base || h->groups.version > base)
        take_page(&h->groups, get(at + 8, 8) + 1, at + 16, &fresh);
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

static void on_error(struct swarm *s, struct host *h, const uint8_t *at, int64_t now) {
    uint64_t code = get(at, 2), highest = get(at + 2, 8);
    s->counts.errors++;
    if (code == 1 && (h->state == MEMBER || h->state == FAIL_OPEN))
        begin_registering(s, h, now);
    else if (code == 4 && (h->sequence < highest || h->sequence > highest + (1ULL << 40)))
        h->sequence = highest + 1;
}

#endif
