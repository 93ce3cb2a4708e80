/* What a leader says in pages, of which a host notes the version: directory, regulated destinations and groups. */
#ifndef BATON_SWARM_PAGES_H
#define BATON_SWARM_PAGES_H
#include "membership.h"

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
static const uint8_t *take_addresses(struct swarm *s, uint32_t node, uint32_t addresses, const uint8_t *at,
                                     const uint8_t *end) {
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

#endif
