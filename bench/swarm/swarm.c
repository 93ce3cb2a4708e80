/* Thousands of agents behind one socket, and the links between their hosts. Python makes it, runs it for a while at a time,
 * verifies what leaders sign for all, and reads the counts (bench/swarm/library.py). */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "agent.h"

#define LAG (20 * MS) /* the links' model is so far behind: by then it is known what hosts did, even if the swarm was late */
#define TURN_BATCHES 8
#define TURN_TIMERS 512
#define TURN_STEPS 256
#define TURN_LINKS (2 * MS) /* for the model in a turn; an eighth of it while frames wait */
#define BEHIND (100 * MS) /* a model that is so far behind makes the steps of a millisecond as one */
#define WINDOW 64

static int64_t clock_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* -- the socket -- */

static void flush(struct swarm *s) {
    struct mmsghdr message[OUT] = {0};
    struct iovec part[OUT];
    if (s->out_pings && s->asked_ns <= s->served_ns)
        s->asked_ns = clock_ns(CLOCK_MONOTONIC);
    s->out_pings = 0;
    for (uint32_t at = 0; at < s->out_count; at++) {
        part[at] = (struct iovec){s->out[at], s->out_bytes[at]};
        message[at].msg_hdr = (struct msghdr){.msg_iov = &part[at], .msg_iovlen = 1};
    }
    for (uint32_t done = 0; done < s->out_count;) {
        int count = sendmmsg(s->fd, message + done, s->out_count - done, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) { /* the interface takes no more: this one is lost */
            done++;
            continue;
        }
        s->counts.sent += (uint64_t)count;
        done += (uint32_t)count;
    }
    s->out_count = 0;
}

static int accepts(struct host *h, uint64_t sequence) {
    if (sequence > h->heard_sequence) {
        uint64_t by = sequence - h->heard_sequence;
        h->seen = by < WINDOW ? h->seen << by | 1 : 1;
        h->heard_sequence = sequence;
        return 1;
    }
    uint64_t back = h->heard_sequence - sequence;
    if (back >= WINDOW || h->seen >> back & 1)
        return 0;
    h->seen |= 1ULL << back;
    return 1;
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

static void take(struct swarm *s, const uint8_t *frame, uint32_t length, int64_t came_ns, int64_t now) {
    uint32_t number = (uint32_t)get(frame + 2, 4) - 1;
    s->counts.received++;
    if (length < LEAST_FRAME || get(frame, 2) != 0x0200 || number >= s->hosts || s->host[number].state == OFF)
        return;
    if (lost(s)) {
        s->counts.dropped_in++;
        return;
    }
    struct host *h = &s->host[number];
    uint32_t epoch = (uint32_t)get(frame + AT_EPOCH, 4);
    if (!opens(frame, length, h->from_leader) || get(frame + AT_SENDER, 4) != 1 || epoch < h->epoch) {
        s->counts.refused++;
        return;
    }
    if (epoch > h->epoch)
        new_leader(s, h, epoch, frame + 6, now);
    if (!accepts(h, get(frame + AT_SEQUENCE, 8))) {
        s->counts.refused++;
        return;
    }
    if (s->asked_ns > s->served_ns)
        s->counts.gap_ns = later(s->counts.gap_ns, came_ns - s->asked_ns);
    s->served_ns = later(s->served_ns, came_ns);
    h->heard_ns = h->answered_ns = came_ns;
    uint32_t bytes = (uint32_t)get(frame + AT_LENGTH, 2);
    const uint8_t *at = frame + AT_BODY, *end = at + bytes;
    switch (frame[AT_TYPE]) {
    case WELCOME: on_welcome(s, h, at, now); break;
    case DIRECTORY: on_directory(s, h, at, end); break;
    case DIRECTORY_CHANGE: on_change(s, h, at, end); break;
    case REGULATE: on_regulate(s, h, at, end, now); break;
    case DIRECTIVE: on_directive(s, h, at, bytes, came_ns, now); break;
    case GROUPS_CHANGE:
        on_groups(h, at);
        memcpy(s->group, frame, length);
        s->group_bytes = length, s->group_ns = came_ns;
        break;
    case PONG: on_pong(s, h, at, came_ns); break;
    case ERROR: on_error(s, h, at, now); break;
    default: s->counts.unknown++, s->unknown[frame[AT_TYPE] % KINDS]++;
    }
    reschedule(s, number);
}

/* When the kernel got the frame, by the monotonic clock; now, if it does not say. */
static int64_t stamp(const struct swarm *s, struct msghdr *from, int64_t now) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(from); c; c = CMSG_NXTHDR(from, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(c), sizeof at);
            return earlier(now, at.tv_sec * SECOND + at.tv_nsec - s->real_offset_ns);
        }
    return now;
}

/* Takes what came, until a frame that Python reads is there: one for all, or verified groups; it waits in `group`. */
static int receive(struct swarm *s) {
    struct mmsghdr message[BATCH] = {0};
    struct iovec part[BATCH];
    union { char bytes[CMSG_SPACE(sizeof(struct timespec))]; struct cmsghdr align; } control[BATCH];
    if (s->in_next == s->in_count) {
        for (uint32_t at = 0; at < BATCH; at++) {
            part[at] = (struct iovec){s->in[at], MOST_FRAME};
            message[at].msg_hdr = (struct msghdr){
                .msg_iov = &part[at], .msg_iovlen = 1, .msg_control = &control[at], .msg_controllen = sizeof control[at]};
        }
        int got = recvmmsg(s->fd, message, BATCH, MSG_DONTWAIT, NULL);
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        s->in_next = 0, s->in_count = got < 0 ? 0 : (uint32_t)got;
        s->drained_ns = now;
        for (uint32_t at = 0; at < s->in_count; at++)
            s->in_bytes[at] = message[at].msg_len, s->in_ns[at] = stamp(s, &message[at].msg_hdr, now);
        if (s->in_count == BATCH) /* more may wait: nobody is silent after the last that was read */
            s->drained_ns = s->in_ns[BATCH - 1];
    }
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    while (s->in_next < s->in_count) {
        uint32_t at = s->in_next++;
        if (s->in[at][0] & 1) {
            memcpy(s->group, s->in[at], s->in_bytes[at]);
            s->group_bytes = s->in_bytes[at], s->group_ns = s->in_ns[at];
            s->counts.received++;
            return 1;
        }
        s->group_bytes = 0;
        take(s, s->in[at], s->in_bytes[at], s->in_ns[at], now);
        if (s->group_bytes)
            return 1;
    }
    return 0;
}

/* -- time -- */

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

static void send_ping(struct swarm *s, struct host *h, int64_t now) {
    h->pings++;
    h->ping_ns = h->pings > FIRST_PINGS ? paced(h, PING_EVERY, now) : now + PING_FIRST;
    if (h->synchronised && (h->pings == FIRST_PINGS || h->pings % 5 == 0)) {
        uint64_t error = h->best_delay_ns / 2 + (uint64_t)(now + h->skew_ns - h->best_ns) / SECOND * DRIFT_PPB;
        send_frame(s, h, CLOCK_REPORT, put(put(body(s), (uint64_t)(h->error_ns - h->skew_ns), 8), error, 8));
    }
    send_frame(s, h, PING, put(body(s), (uint64_t)(clock_ns(CLOCK_MONOTONIC) + h->skew_ns), 8));
    s->counts.pings++;
}

static void tell(struct swarm *s, struct host *h, int64_t now) {
    uint64_t error = h->synchronised ? h->best_delay_ns / 2 : 0, leader = h->synchronised ? (uint64_t)(now + h->error_ns) : 0;
    send_frame(s, h, HOST_STATE,
               pack_host_state(body(s), s->fingerprint, (uint64_t)(now + s->real_offset_ns), leader, error));
    send_frame(s, h, HOST_LINK, pack_host_link(body(s), h->rate_bps, (uint64_t)later(1, now - h->told_ns), 0));
    h->told_ns = now, h->told_due_ns = paced(h, TELL_EVERY, now);
}

/* A demand arrives for one of the destinations. */
static void arrive(struct swarm *s, struct host *h, int64_t now) {
    struct target *t = &h->target[chance(&h->random) % h->target_count];
    double bytes = -__builtin_log(1 - share(&h->random)) * s->mean_bytes;
    int fresh = t->backlog < 1;
    h->arrival_ns = now + 1 + (int64_t)(-__builtin_log(1 - share(&h->random)) * s->mean_bytes / (s->load_rate * h->rate));
    t->backlog += bytes < FRAME_BYTES ? FRAME_BYTES : bytes;
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
            h->report_due_ns = h->report_ns >= SECOND ? paced(h, 0, now) : now + h->report_ns;
            send_report(s, h, now);
        }
        if (now >= h->told_due_ns)
            tell(s, h, now);
        if (now >= h->look_ns)
            look(s, h, now);
    }
    reschedule(s, number);
}

/* What a host puts on its link in the time that ends at `end`, so long; whether it sends on. */
static int put_step(struct swarm *s, struct host *h, int64_t end, int64_t length) {
    double used = 0;
    uint32_t going = 0, free = 0;
    for (uint32_t at = 0; at < h->target_count; at++) {
        struct target *t = &h->target[at];
        for (uint32_t each = 0; each < t->piece_count;) {
            struct piece *p = &t->piece[each];
            int64_t until = earlier(p->until_ns, end);
            if (until > p->from_ns) {
                double bytes = (double)(until - p->from_ns) * p->rate;
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
    for (uint32_t done = 0; done < TURN_STEPS; done++) {
        uint32_t many = links_together(s->links, until - s->stepped_ns > BEHIND);
        if (s->stepped_ns + s->step_ns * many > until || (done && clock_ns(CLOCK_MONOTONIC) - began > most))
            return;
        step(s, many);
    }
}

/* -- what Python calls -- */

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

/* The node ids of all hosts; 0 of those that are no members. */
void swarm_nodes(const struct swarm *s, uint32_t *into) {
    for (uint32_t number = 0; number < s->hosts; number++)
        into[number] = s->host[number].state == MEMBER ? s->host[number].node : 0;
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

/* `pairs`: who sends to whom, sorted by sender, one flow of the links each. */
struct swarm *swarm_make(int32_t fd, uint32_t hosts, uint32_t nodes, uint32_t address, uint32_t pairs, const uint32_t *senders,
                         const uint32_t *destinations, struct links *links, int64_t step_ns, uint64_t seed) {
    struct swarm *s = calloc(1, sizeof *s);
    s->fd = fd, s->hosts = hosts, s->nodes = nodes, s->address = address, s->links = links, s->step_ns = step_ns;
    s->random = seed | 1, s->always = 1;
    s->host = calloc(hosts, sizeof *s->host), s->active = calloc(hosts, 1), s->node_of = calloc(hosts, sizeof(uint32_t));
    s->host_of_node = malloc(nodes * sizeof(uint32_t)), s->targets = calloc(pairs ? pairs : 1, sizeof *s->targets);
    s->out = calloc(OUT, MOST_FRAME), s->in = calloc(BATCH, MOST_FRAME);
    memset(s->host_of_node, 0xFF, nodes * sizeof(uint32_t));
    heap_make(&s->heap, hosts);
    for (uint32_t flow = 0; flow < pairs; flow++) {
        struct host *h = &s->host[senders[flow]];
        struct target *t = &s->targets[flow];
        if (!h->target_count++)
            h->target = t;
        t->host = destinations[flow], t->flow = flow, t->check_ns = NEVER;
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

/* Losses in both directions, as a share of 2^32; with a load demands come at random (a share of the host's rate, mean bytes). */
void swarm_set(struct swarm *s, uint64_t lose, double load, double mean_bytes, uint64_t fingerprint) {
    s->lose = lose, s->load_rate = load, s->mean_bytes = mean_bytes, s->always = load <= 0, s->fingerprint = fingerprint;
}

void swarm_counts(const struct swarm *s, struct counts *into) {
    *into = s->counts;
    into->awaiting = into->epoch = into->current = 0, into->stepped_ns = s->stepped_ns;
    for (uint32_t number = 0; number < s->hosts; number++) {
        into->awaiting += s->host[number].regulates && !s->host[number].served;
        into->epoch = later(into->epoch, s->host[number].epoch);
    }
    for (uint32_t number = 0; number < s->hosts; number++)
        into->current += s->host[number].state == MEMBER && s->host[number].epoch == into->epoch;
}

const uint64_t *swarm_unknown(const struct swarm *s) { return s->unknown; }

/* Longest times, and the counts of each link, begin anew. */
void swarm_forget(struct swarm *s) {
    s->counts.latest_ns = s->counts.gap_ns = s->counts.answer_ns = s->counts.clock_error_ns = 0;
    s->counts.turn_ns = s->counts.behind_ns = 0;
    for (uint32_t link = 0; link < s->links->links; link++)
        s->links->counts[link] = (struct link_counts){0};
}

const uint8_t *swarm_group(const struct swarm *s, uint32_t *length, int64_t *came_ns) {
    *length = s->group_bytes, *came_ns = s->group_ns;
    return s->group;
}

void swarm_free(struct swarm *s) {
    void *all[] = {s->host, s->active, s->node_of, s->host_of_node, s->targets, s->out, s->in, s->heap.host, s->heap.place,
                   s->heap.due, s};
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

/* For tests: a body of this kind from numbers in the order of the document; its length. */
uint32_t frame_pack(uint32_t kind, const uint64_t *n, uint32_t count, const char *name, uint8_t *into) {
    struct flow_entry entry[PAGE_ENTRIES];
    uint32_t fixed = kind == REPORT ? 4 : 3, entries = count > fixed ? (count - fixed) / 3 : 0;
    for (uint32_t at = 0; at < entries && at < PAGE_ENTRIES; at++)
        entry[at] = (struct flow_entry){(uint32_t)n[fixed + 3 * at], n[fixed + 3 * at + 1], n[fixed + 3 * at + 2]};
    uint8_t *end = into;
    switch (kind) {
    case REGISTER: end = pack_register(into, n[0], n[1], name, "swarm", (uint32_t)n[2]); break;
    case BACKLOG: end = pack_backlog(into, n[0], (uint32_t)n[1], (uint32_t)n[2], entry, entries); break;
    case REPORT: end = pack_report(into, n[0], n[1], (uint32_t)n[2], (uint32_t)n[3], entry, entries); break;
    case YIELD: end = pack_yield(into, (uint32_t)n[0], n[1], (uint32_t)n[2], n[3]); break;
    case ACK: end = pack_ack(into, n[0], (uint32_t)n[1], n[2], n[3]); break;
    case HOST_STATE: end = pack_host_state(into, n[0], n[1], n[2], n[3]); break;
    case HOST_LINK: end = pack_host_link(into, n[0], n[1], n[2]); break;
    default:
        for (uint32_t at = 0; at < count; at++)
            end = put(end, n[at], 8);
    }
    return (uint32_t)(end - into);
}

/* For tests: seals a frame whose body is in place; its length. */
uint32_t frame_seal(uint8_t *frame, uint32_t kind, uint32_t body_bytes, const uint8_t *to, const uint8_t *from, uint32_t sender,
                    uint32_t epoch, uint64_t sequence, const uint8_t *enrolment, const uint8_t *key) {
    uint32_t keyed[8];
    blake2s_keyed(keyed, key, (const uint8_t *)"baton v1");
    return seal(frame, (enum kind)kind, body_bytes, to, from, sender, epoch, sequence, enrolment, keyed);
}

/* For tests: the grants of a DIRECTIVE to the host of this key; -1: no whole frame, or the tag does not fit. */
int32_t frame_grants(const uint8_t *frame, uint32_t length, const uint8_t *key, struct grant *into) {
    uint32_t keyed[8];
    blake2s_keyed(keyed, key, (const uint8_t *)"baton v1");
    if (!opens(frame, length, keyed) || frame[AT_TYPE] != DIRECTIVE)
        return -1;
    return read_directive(frame + AT_BODY, (uint32_t)get(frame + AT_LENGTH, 2), into, MOST_BODY / 40);
}
