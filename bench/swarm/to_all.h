/* What leaders say to all hosts at once, and Python has verified: each host that is not meant to lose it takes it. */
#ifndef BATON_SWARM_TO_ALL_H
#define BATON_SWARM_TO_ALL_H
#include "pages.h"

/* A verified HEARTBEAT of this leader. */
void swarm_heartbeat(struct swarm *s, uint32_t epoch, const uint8_t *leader, uint8_t free, uint64_t directory,
                     uint64_t groups, int64_t came_ns) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    s->override_free = free;
    for (uint32_t number = 0; number < s->hosts; number++) {
        struct host *h = &s->host[number];
        if (h->state == OFF || epoch < h->epoch || lost(s))
            continue;
        h->heard_ns = came_ns;
        if (epoch > h->epoch)
            new_leader(s, h, epoch, leader, now);
        else if (h->state == LISTENING)
            begin_registering(s, h, now);
        else if (h->state == FAIL_OPEN)
            set_state(s, h, MEMBER, now), h->free_ns = now;
        else if (h->state != MEMBER)
            continue;
        set_enforcing(s, h, now);
        if (h->state == MEMBER) {
            if (directory == h->directory.version) {
                h->ask_ns = 0, h->ask_after_ns = ASK;
            } else if (!h->ask_ns) {
                h->ask_ns = now + (int64_t)((double)ASK * (1 + share(&h->random)));
            } else if (now >= h->ask_ns) {
                h->ask_after_ns = earlier(2 * h->ask_after_ns, ASK_MOST);
                h->ask_ns = now + (int64_t)((double)h->ask_after_ns * (1 - share(&h->random) / 2));
                send_request(s, h, h->directory.version);
            }
            look_at_groups(s, h, groups, now);
        }
        reschedule(s, number);
    }
}

/* Any other verified frame to all shows that the leader lives. */
void swarm_heard(struct swarm *s, uint32_t epoch, int64_t came_ns) {
    for (uint32_t number = 0; number < s->hosts; number++)
        if (s->host[number].epoch == epoch && !lost(s))
            s->host[number].heard_ns = came_ns;
}

/* A node has this host's address from now on (UINT32_MAX: it has none). */
void swarm_named(struct swarm *s, uint32_t node, uint32_t number) {
    if (node >= s->nodes)
        return;
    s->host_of_node[node] = number;
    if (number < s->hosts)
        s->node_of[number] = node;
}

/* A verified page of DIRECTORY to all: its body. */
void swarm_directory(struct swarm *s, uint32_t epoch, const uint8_t *at, uint32_t length) {
    int fresh;
    for (uint32_t number = 0; number < s->hosts; number++)
        if (s->host[number].epoch == epoch && s->host[number].state == MEMBER && !lost(s))
            take_page(&s->host[number].directory, get(at, 8), at + 8, &fresh);
    take_entries(s, at, at + length);
}

/* A verified DIRECTORY_CHANGE, whose entries `swarm_named` has. */
void swarm_changed(struct swarm *s, uint32_t epoch, uint64_t base, uint64_t version) {
    for (uint32_t number = 0; number < s->hosts; number++) {
        struct host *h = &s->host[number];
        if (h->epoch == epoch && h->directory.version >= base && h->directory.version < version && !lost(s))
            h->directory.version = version;
    }
}

/* A verified GROUPS_CHANGE to all. */
void swarm_grouped(struct swarm *s, uint32_t epoch, uint64_t base, uint64_t version) {
    for (uint32_t number = 0; number < s->hosts; number++) {
        struct host *h = &s->host[number];
        if (h->epoch == epoch && h->state == MEMBER && (!base || h->groups.version > base) && h->groups.version <= version &&
            !lost(s))
            h->groups.version = h->groups.coming = version + 1;
    }
}

/* Which pairs need permission, as those find who have this version of the groups. */
void swarm_regulated(struct swarm *s, uint64_t version, uint32_t pairs, const uint8_t *regulated) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    for (uint32_t number = 0; number < s->hosts; number++) {
        struct host *h = &s->host[number];
        if (h->groups.version != version + 1)
            continue;
        int differs = 0;
        for (uint32_t at = 0; at < h->target_count; at++) {
            struct target *t = &h->target[at];
            t->named = t->flow < pairs && regulated[t->flow];
            differs |= t->named != t->regulated;
        }
        if (differs) {
            apply_regulation(s, h, now);
            reschedule(s, number);
        }
    }
}

#endif
