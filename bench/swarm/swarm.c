/* Thousands of agents behind one socket, and the links between their hosts. Python makes it, runs it for a while at a time,
 * verifies what leaders sign for all, and reads the counts (bench/swarm/library.py). */
#define _GNU_SOURCE
#include <poll.h>

#include "for_tests.h"
#include "socket.h"
#include "step.h"
#include "timers.h"
#include "to_all.h"
#include "witness.h"

#define LAG (20 * MS) /* the links' model is so far behind: by then it is known what hosts did, even if the swarm was late */
#define TURN_BATCHES 8
#define TURN_TIMERS 512
#define TURN_LINKS (2 * MS) /* for the model in a turn; an eighth of it while frames wait */

/* Runs until that time, or until a frame for all has come; whether one has. */
int32_t swarm_run(struct swarm *s, int64_t until_ns) {
    for (;;) {
        int64_t now = clock_ns(CLOCK_MONOTONIC), began = now;
        s->real_offset_ns = clock_ns(CLOCK_REALTIME) - now;
        int group = 0;
        for (uint32_t done = 0; !group && done < TURN_BATCHES && (!done || s->in_count == BATCH); done++)
            group = receive(s);
        now = clock_ns(CLOCK_MONOTONIC);
        for (uint32_t done = 0; done < TURN_TIMERS && s->heap.due[s->heap.host[0]] <= now; done++)
            serve(s, s->heap.host[0], now);
        advance_links(s, now - LAG, group ? TURN_LINKS / 8 : TURN_LINKS);
        flush(s);
        now = clock_ns(CLOCK_MONOTONIC);
        s->counts.turn_ns = later(s->counts.turn_ns, now - began);
        if (group || now >= until_ns)
            return group;
        int64_t wait = earlier(earlier(s->heap.due[s->heap.host[0]], until_ns) - now, MS);
        if (wait > 0) {
            struct pollfd one = {s->fd, POLLIN, 0};
            struct timespec most = {0, wait};
            ppoll(&one, 1, &most, NULL);
        }
    }
}

/* Moves the model alone, without a leader, as fast as it goes. */
void swarm_drift(struct swarm *s, int64_t ns) {
    for (; ns > 0; ns -= s->step_ns)
        step(s, 1);
}

/* The node ids of all hosts; 0 of those that are no members. */
void swarm_nodes(const struct swarm *s, uint32_t *into) {
    for (uint32_t number = 0; number < s->hosts; number++)
        into[number] = s->host[number].state == MEMBER ? s->host[number].node : 0;
}

/* `pairs`: who sends to whom, sorted by sender, one flow of the links each. */
struct swarm *swarm_make(int32_t fd, uint32_t hosts, uint32_t nodes, uint32_t address, uint32_t pairs, const uint32_t *senders,
                         const uint32_t *destinations, struct links *links, int64_t step_ns, uint64_t seed) {
    struct swarm *s = calloc(1, sizeof *s);
    s->fd = fd, s->hosts = hosts, s->nodes = nodes, s->address = address, s->links = links, s->step_ns = step_ns;
    s->random = seed | 1, s->always = 1;
    s->host = calloc(hosts, sizeof *s->host), s->active = calloc(hosts, 1), s->node_of = calloc(hosts, sizeof(uint32_t));
    s->host_of_node = malloc(nodes * sizeof(uint32_t));
    s->targets = aligned_alloc(_Alignof(struct target), (pairs + SOON) * sizeof *s->targets);
    memset(s->targets, 0, (pairs + SOON) * sizeof *s->targets);
    s->pending = calloc((size_t)(pairs + 1) * PENDING, sizeof *s->pending);
    s->out = calloc(OUT, MOST_FRAME), s->in = calloc(BATCH, MOST_FRAME);
    memset(s->host_of_node, 0xFF, nodes * sizeof(uint32_t));
    heap_make(&s->heap, hosts);
    for (uint32_t flow = 0; flow < pairs; flow++) {
        struct host *h = &s->host[senders[flow]];
        struct target *t = &s->targets[flow];
        if (!h->target_count++)
            h->target = t;
        t->host = destinations[flow], t->flow = flow, t->check_ns = NEVER, t->pending = s->pending + (size_t)flow * PENDING;
        s->active[senders[flow]] = 1;
    }
    s->stepped_ns = clock_ns(CLOCK_MONOTONIC);
    return s;
}

/* Sets up a host, which begins to listen at that time. */
void swarm_host(struct swarm *s, uint32_t number, const char *name, const uint8_t *enrolment, const uint8_t *to_leader,
                const uint8_t *from_leader, uint64_t rate_bps, int64_t begin_ns) {
    static const uint8_t person[8] = "baton v1";
    struct host *h = &s->host[number];
    put(put(h->mac, 0x0200, 2), number + 1, 4);
    h->address = s->address + number, h->rate_bps = rate_bps, h->rate = (double)rate_bps / 8e9, h->begin_ns = begin_ns;
    strncpy(h->name, name, NAME - 1);
    memcpy(h->enrolment, enrolment, ENROLMENT);
    blake2s_keyed(h->to_leader, to_leader, person);
    blake2s_keyed(h->from_leader, from_leader, person);
    h->random = chance(&s->random) | 1, h->skew_ns = (int64_t)(chance(&h->random) >> 24);
    h->nonce = chance(&h->random), h->sequence = (uint64_t)clock_ns(CLOCK_REALTIME);
    h->register_ns = h->ping_ns = h->report_due_ns = h->told_due_ns = h->look_ns = h->slot_due_ns = h->arrival_ns = NEVER;
    h->fail_open_ns = 50 * MS, h->report_ns = 50 * MS, h->retry_ns = REGISTER_RETRY;
    if (s->load_rate > 0 && h->target_count)
        h->arrival_ns = begin_ns;
    reschedule(s, number);
}

/* Losses in both directions, as a share of 2^32; with a load demands come at random: a share of the host's rate, and their mean
 * bytes. */
void swarm_set(struct swarm *s, uint64_t lose, double load, double mean_bytes, uint64_t fingerprint) {
    s->lose = lose, s->load_rate = load, s->mean_bytes = mean_bytes, s->always = load <= 0, s->fingerprint = fingerprint;
}

void swarm_counts(const struct swarm *s, struct counts *into) {
    *into = s->counts;
    into->awaiting = into->epoch = into->current = 0, into->stepped_ns = s->stepped_ns;
    into->model_step_ns = s->step_ns * s->links->coarsest;
    for (uint32_t number = 0; number < s->hosts; number++) {
        into->awaiting += s->host[number].regulates && !s->host[number].served;
        into->epoch = later(into->epoch, s->host[number].epoch);
    }
    for (uint32_t number = 0; number < s->hosts; number++)
        into->current += s->host[number].state == MEMBER && s->host[number].epoch == into->epoch;
}

const struct stops *swarm_gaps(const struct swarm *s) { return &s->gaps; }

const uint64_t *swarm_unknown(const struct swarm *s) { return s->unknown; }

/* Longest times, and the counts of each link, begin anew. */
void swarm_forget(struct swarm *s) {
    s->counts.latest_ns = s->counts.answer_ns = s->counts.clock_error_ns = 0;
    s->counts.turn_ns = s->counts.behind_ns = s->counts.model_behind_ns = 0;
    s->links->coarsest = 0;
    s->gaps.count = 0;
    for (uint32_t link = 0; link < s->links->links; link++)
        s->links->counts[link] = (struct link_counts){0};
}

const uint8_t *swarm_group(const struct swarm *s, uint32_t *length, int64_t *came_ns) {
    *length = s->group_bytes, *came_ns = s->group_ns;
    return s->group;
}

void swarm_free(struct swarm *s) {
    void *all[] = {s->host, s->active, s->node_of, s->host_of_node, s->targets, s->pending, s->out, s->in,
                   s->heap.host, s->heap.place, s->heap.due, s};
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++)
        free(all[at]);
}

struct links *model_make(uint32_t links, uint32_t flows, uint32_t levels, uint32_t steps_a_ms, const double *capacity,
                         const double *buffer, const int32_t *path) {
    return links_make(links, flows, levels, steps_a_ms, capacity, buffer, path);
}

void model_step(struct links *m, const double *sent) {
    for (uint32_t flow = 0; flow < m->flows; flow++)
        links_put(m, flow, sent[flow]);
    links_step(m, 1);
}

void model_sums(const struct links *m, double into[4]) {
    into[0] = m->sent, into[1] = m->delivered, into[2] = m->lost, into[3] = links_waiting(m);
}

const struct link_counts *model_counts(const struct links *m) { return m->counts; }
void model_free(struct links *m) { links_drop(m); }
