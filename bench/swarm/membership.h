/* How a host becomes a member of a leader: registration, the requests for what it has missed, and the leader's errors. */
#ifndef BATON_SWARM_MEMBERSHIP_H
#define BATON_SWARM_MEMBERSHIP_H
#include "slots.h"

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
    h->epoch = epoch, h->nonce++, h->window = (struct replay_window){0}, h->synchronised = 0, h->pings = 0, h->error_ns = 0;
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
    h->ping_ns = h->synchronised ? paced(h, PING_EVERY, 1, now) : now, h->look_ns = now + h->fail_open_ns / QUESTIONS;
    h->reported_ns = now, h->told_ns = now, h->told_due_ns = now + pace_of(h, TELL_EVERY, NEWS_REPORTS) / 4;
    h->report_due_ns = h->report_ns >= SECOND ? paced(h, 0, 1, now) : now + h->report_ns;
    h->free_ns = now;
    set_enforcing(s, h, now);
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
