/* What a swarm keeps, how its agents send, and the periods that they keep, as agents/ does it. Times are the machine's
 * monotonic clock unless a name says otherwise; a host's own clock is that plus `skew_ns`, and its estimate of the leader's is
 * off by `error_ns`. */
#ifndef BATON_SWARM_AGENT_H
#define BATON_SWARM_AGENT_H
#include <time.h>

#include "hosts.h"
#include "stops.h"

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
#define NEWS_REPORTS 8
#define FIRST_PINGS 16
#define QUESTIONS 3
#define DRIFT_PPB 20000
#define PAGE_ENTRIES 69 /* fit into a page of a REPORT; of a BACKLOG one more */
#define QUEUE_BYTES 1514000 /* what waits at the gate of a sender that always sends: 1,000 packets */

struct counts {
    uint64_t received, sent, refused, unknown, dropped_in, dropped_out;
    uint64_t registers, welcomes, backlogs, directives, grants, late, acks, yields, reports, pings, pongs, questions, errors;
    uint64_t silent, unanswered, not_taken, granted_bytes, rate_grants;
    int64_t members, served, last_member_ns, last_served_ns, latest_ns, answer_ns, clock_error_ns;
    int64_t turn_ns, behind_ns, awaiting, stepped_ns;
    int64_t model_behind_ns, model_step_ns; /* the longest */
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
    struct slot *pending;                   /* of all targets */
    struct links *links;
    struct heap heap;
    struct counts counts;
    struct stops gaps;                      /* of the leader: a PING waited, and no host heard anything */
    uint64_t unknown[KINDS], most_late_ns;
    uint32_t out_count, out_bytes[OUT], group_bytes;
    int64_t group_ns;
    uint32_t in_next, in_count, in_bytes[BATCH]; /* of the batch that was read last */
    int64_t in_ns[BATCH];
    uint32_t out_ping;                      /* how many frames wait up to the first PING, itself included; 0: none waits */
    uint8_t (*out)[MOST_FRAME], (*in)[MOST_FRAME], group[MOST_FRAME];
};

static void flush(struct swarm *s);
static void reschedule(struct swarm *s, uint32_t number);

static int64_t clock_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

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
    if (kind == PING && !s->out_ping)
        s->out_ping = s->out_count;
}

/* The period of a thing: its own, or where the leader wants reports less often, that of so many of them (agents/loop/pace.py). */
static int64_t pace_of(const struct host *h, int64_t own_ns, int reports) {
    return later(own_ns, earlier(PACE_MOST, reports * h->report_ns));
}

/* When to do it again: in a period of its own, or with the others of its period. */
static int64_t paced(const struct host *h, int64_t own_ns, int reports, int64_t now) {
    int64_t period = pace_of(h, own_ns, reports);
    return now + period - (period > own_ns ? (now + h->skew_ns) % period : 0);
}

static struct target *target_at(struct swarm *s, struct host *h, uint32_t node) {
    uint32_t number = node < s->nodes ? s->host_of_node[node] : UINT32_MAX;
    for (uint32_t at = 0; at < h->target_count; at++)
        if (h->target[at].host == number)
            return &h->target[at];
    return NULL;
}

#endif
