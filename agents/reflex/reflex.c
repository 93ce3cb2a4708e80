/* An agent's reflex: what changes gates within microseconds, while the agent waits and before its Python runs.
 *
 * Three things are that urgent: a pause frame (IEEE 802.1Qbb PFC, IEEE 802.3x PAUSE), the instant at which a day of a week
 * ends or begins, and the leader's word on which queues may send (CONDITIONS of protocol/PROTOCOL.md). Before each wait the
 * agent says which prebuilt rtnetlink messages each would take; here is only what picks them. The wait then returns, and the
 * agent does the same by its own rules, which decide if the two should ever differ.
 * One thread, no state of its own that outlives a wait but the one in `struct reflex`. See agents/reflex/reflex.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "blake2s.h"

#define CLASSES 8
#define FRAMES 64        /* taken in one wait: a flood is taken in turns */
#define FRAME_BYTES 64   /* of each that are kept; a pause frame has 60 */
#define PARTNERS 32
#define STEPS 2
#define QUEUES 128
#define CONTROL_BYTES 1514
#define LEAD_STEP_NS 1000
#define REHEARSAL_NS 20000 /* mostly takes less than this */
#define CLOSE_NS 10000   /* so shortly before a step nothing else is looked at */

enum { WHOLE = 60, OPCODE_AT = 14, ENABLE_AT = 16, TIMES_AT = 18, PFC = 0x0101, PAUSE = 0x0001 };
/* A control frame (protocol/wire.py), and a CONDITIONS body (protocol/bodies/host_control.py) */
enum { ETHERTYPE_AT = 12, MAGIC_AT = 14, VERSION_AT = 16, KIND_AT = 17, FLAGS_AT = 18, LENGTH_AT = 20 };
enum { SENDER_AT = 22, EPOCH_AT = 26, SEQUENCE_AT = 30, BODY = 38 };
enum { ETHERTYPE = 0x88b5, MAGIC = 0x4254, VERSION = 2, CONDITIONS = 20, COORDINATOR = 1 };
enum { PAGE_AT = 8, ONE_PAGE = 1, HEAD = 12, ENTRY = 32, FROM_AT = 8, UNTIL_AT = 16, RATE_AT = 24 };
static const uint8_t GROUP_AND_TYPE[] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x88, 0x08};

struct batch {           /* rtnetlink messages that ask for no acknowledgement, one after the other */
    const uint8_t *messages;
    uint64_t bytes;
};

struct step {
    int64_t at_ns;       /* CLOCK_MONOTONIC */
    struct batch shut, open;
};

struct queue {           /* of a destination */
    uint32_t number;
    uint8_t held;        /* by a condition, that is: by none that is met */
    uint8_t was_shut, was_opened;
    struct batch shut, open;
};

struct reflex {
    int32_t pauses;      /* packet socket on which pause frames arrive; -1: none are obeyed here */
    int32_t netlink, link;
    uint8_t kick[WHOLE]; /* sent by `link` once something was opened: wakes the interface's queues */
    uint8_t paused, muted; /* bit n: class n. Muted: its pauses have no effect */
    uint8_t armed;       /* whether `shut` and `open` are what the rules would do; else frames are only taken */
    uint16_t partners;   /* how many; 0: whoever is at the other end */
    uint8_t partner[PARTNERS][6];
    struct batch shut[CLASSES], open[CLASSES];
    struct step step[STEPS]; /* in the order of their times */
    int64_t lead_ns, longest_lead_ns; /* a step is begun so long before, since its messages take as long at the least */
    int32_t control;     /* packet socket on which the leader is heard; -1: its conditions are left to the agent */
    uint8_t own[6], leader[6];
    uint32_t epoch;
    uint64_t sequence;   /* of the newest frame that was taken */
    int64_t offset_ns;   /* the leader's clock before CLOCK_MONOTONIC */
    uint32_t key[8];     /* see blake2s_keyed */
    uint16_t queues;
    struct queue queue[QUEUES];
    int64_t spin_ns;     /* how long before a step it is waited for awake */
    int64_t near_ns;     /* a step that follows another so soon is waited for before the agent has its turn */
    int64_t polled_ns, rest_ns, next_rest_ns; /* who polls rests for so long after so long */
    struct batch rehearsal; /* a message that the kernel refuses; see rehearse */
    int64_t rehearsed_ns, rehearse_ns, recall_ns; /* when last; how often who polls does, and who sleeps */
    int64_t commanded_ns, recent_ns; /* when a frame last had an effect; who sleeps rehearses for so long after it */
    int64_t warm_ns;     /* and comes back for a turn of the agent after so long */
    /* what was done, for the agent: */
    int64_t acted_ns;    /* when a step had been made */
    uint8_t ruled;       /* whether any queue was shut or opened by a condition */
    uint8_t was_shut, was_opened; /* classes by their last frame */
    uint8_t steps, stepped; /* of so many, so many were made */
    uint8_t frames;      /* kept until the agent takes them */
    int32_t refused;     /* errno of a message that the kernel refused */
    uint16_t length[FRAMES];
    uint8_t frame[FRAMES][FRAME_BYTES];
};

uint64_t reflex_size(void) { return sizeof(struct reflex); }

void reflex_key(struct reflex *r, const uint8_t *secret, const uint8_t *person) { blake2s_keyed(r->key, secret, person); }

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void act(struct reflex *r, const struct batch *batch) {
    if (batch->bytes && send(r->netlink, batch->messages, batch->bytes, 0) < 0)
        r->refused = errno;
}

static void kick(struct reflex *r) { send(r->link, r->kick, sizeof r->kick, MSG_DONTWAIT); }

/* The kernel answers only what it refuses. */
static void take_refusals(struct reflex *r) {
    uint8_t answer[512];
    ssize_t got;
    while ((got = recv(r->netlink, answer, sizeof answer, MSG_DONTWAIT)) > 0) {
        const struct nlmsghdr *header = (const void *)answer;
        if (got >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) && header->nlmsg_type == NLMSG_ERROR)
            r->refused = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
    }
}

/* Goes the whole way of a command, to no effect: what did not run for a millisecond is in no cache near the processor any
 * more (a thread beside this one on the same core has its own use for them), and takes twice as long. */
static void rehearse(struct reflex *r) {
    static const uint8_t nothing[2 * BLAKE2S_BLOCK];
    uint8_t answer[512];
    if (!r->rehearsal.bytes)
        return;
    if (send(r->netlink, r->rehearsal.messages, r->rehearsal.bytes, 0) > 0)
        recv(r->netlink, answer, sizeof answer, MSG_DONTWAIT);
    kick(r);
    blake2s_verifies(r->key, nothing, sizeof nothing, nothing);
    r->rehearsed_ns = monotonic_ns();
}

static uint16_t word(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static uint64_t number(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | *at++;
    return value;
}

/* Which classes a frame shuts and opens; neither, if it is to be counted only. The checks are those of protocol/pfc.py. */
static void read_pause(const struct reflex *r, const uint8_t *frame, uint64_t length, uint8_t *shut, uint8_t *open) {
    *shut = *open = 0;
    if (length < WHOLE || memcmp(frame, GROUP_AND_TYPE, 6) || memcmp(frame + 12, GROUP_AND_TYPE + 6, 2))
        return;
    uint16_t opcode = word(frame + OPCODE_AT), enabled = word(frame + ENABLE_AT);
    if (opcode == PAUSE)
        enabled = 0xff;
    else if (opcode != PFC || enabled >> CLASSES)
        return;
    int known = !r->partners;
    for (int at = 0; at < r->partners; at++)
        known |= !memcmp(frame + 6, r->partner[at], 6);
    for (int class = 0; known && class < CLASSES; class++)
        if (enabled >> class & 1 && !(r->muted >> class & 1)) {
            int at = opcode == PAUSE ? ENABLE_AT : TIMES_AT + 2 * class;
            *(word(frame + at) ? shut : open) |= 1 << class;
        }
}

void reflex_read(const struct reflex *r, const uint8_t *frame, uint64_t length, uint8_t *shut, uint8_t *open) {
    read_pause(r, frame, length, shut, open);
}

static void take_pauses(struct reflex *r, int may_open) {
    int acted = 0;
    while (r->frames < FRAMES) {
        uint8_t shut, open, *frame = r->frame[r->frames];
        ssize_t length = recv(r->pauses, frame, FRAME_BYTES, MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0)
            break;
        r->length[r->frames++] = length < FRAME_BYTES ? length : FRAME_BYTES;
        read_pause(r, frame, length, &shut, &open);
        shut &= r->armed ? ~r->paused : 0;
        open &= r->armed && may_open ? r->paused : 0;
        int opened = 0;
        for (int class = 0; class < CLASSES; class++)
            if (shut >> class & 1)
                act(r, &r->shut[class]);
        for (int class = 0; class < CLASSES; class++)
            if (open >> class & 1) {
                act(r, &r->open[class]);
                opened |= r->open[class].bytes != 0;
            }
        if (opened)
            kick(r);
        acted |= shut | open;
        r->paused = (r->paused | shut) & ~open;
        r->was_shut = (r->was_shut | shut) & ~open;
        r->was_opened = (r->was_opened | open) & ~shut;
    }
    if (acted) {
        r->commanded_ns = monotonic_ns();
        take_refusals(r);
    }
}

/* Whether a frame is the leader's newest, authentic, a full state of conditions, and of known queues and no rates; then
 * also which queues it shuts. The checks are those of protocol/wire.py, auth.py and host_control_bodies.py. */
static int read_conditions(const struct reflex *r, const uint8_t *frame, uint64_t length, int64_t now_ns, uint8_t *shut) {
    if (length < BODY + HEAD + BLAKE2S_TAG || frame[KIND_AT] != CONDITIONS || memcmp(frame, r->own, 6) ||
        memcmp(frame + 6, r->leader, 6) || word(frame + ETHERTYPE_AT) != ETHERTYPE || word(frame + MAGIC_AT) != MAGIC ||
        frame[VERSION_AT] != VERSION || word(frame + FLAGS_AT))
        return 0;
    uint64_t size = word(frame + LENGTH_AT), now = (uint64_t)(now_ns + r->offset_ns);
    const uint8_t *body = frame + BODY, *end = body + size;
    if (BODY + size + BLAKE2S_TAG != length || (size - HEAD) % ENTRY || number(frame + SENDER_AT, 4) != COORDINATOR ||
        number(frame + EPOCH_AT, 4) != r->epoch || number(frame + SEQUENCE_AT, 8) <= r->sequence ||
        number(body + PAGE_AT, 4) != ONE_PAGE || !blake2s_verifies(r->key, frame, BODY + size, end))
        return 0;
    enum { UNSAID, NOT_MET, MET };
    memset(shut, UNSAID, r->queues);
    for (const uint8_t *entry = body + HEAD; entry < end; entry += ENTRY) {
        uint64_t from = number(entry + FROM_AT, 8), until = number(entry + UNTIL_AT, 8), at = 0;
        while (at < r->queues && r->queue[at].number != number(entry, 4))
            at++;
        if (at == r->queues || until < from || number(entry + RATE_AT, 8))
            return 0;
        if (shut[at] != MET)
            shut[at] = from <= now && now < until ? MET : NOT_MET;
    }
    for (int at = 0; at < r->queues; at++)
        shut[at] = shut[at] == NOT_MET;
    return 1;
}

int32_t reflex_read_conditions(const struct reflex *r, const uint8_t *frame, uint64_t length, int64_t now_ns, uint8_t *shut) {
    return read_conditions(r, frame, length, now_ns, shut);
}

/* The frame stays where it is: the agent takes it. */
static void take_conditions(struct reflex *r) {
    uint8_t frame[CONTROL_BYTES], shut[QUEUES];
    ssize_t length = recv(r->control, frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 || length > CONTROL_BYTES || !read_conditions(r, frame, length, monotonic_ns(), shut))
        return;
    int opened = 0;
    for (struct queue *queue = r->queue; queue < r->queue + r->queues; queue++)
        if (shut[queue - r->queue] && !queue->held) {
            act(r, &queue->shut);
            queue->was_shut = r->ruled = 1;
        }
    for (struct queue *queue = r->queue; queue < r->queue + r->queues; queue++)
        if (!shut[queue - r->queue] && queue->held) {
            act(r, &queue->open);
            queue->was_opened = r->ruled = 1;
            opened |= queue->open.bytes != 0;
        }
    if (opened)
        kick(r);
    if (r->ruled) {
        r->commanded_ns = monotonic_ns();
        take_refusals(r);
    }
}

/* What the messages take at the least: a little more each time that they take longer. */
static void learn_lead(struct reflex *r, int64_t took_ns) {
    int64_t more_ns = took_ns - r->lead_ns;
    if (!r->lead_ns || more_ns < 0)
        r->lead_ns = took_ns;
    else
        r->lead_ns += more_ns < LEAD_STEP_NS ? more_ns / 16 : LEAD_STEP_NS / 16;
    if (r->lead_ns > r->longest_lead_ns)
        r->lead_ns = r->longest_lead_ns;
}

static void make_step(struct reflex *r) {
    const struct step *step = &r->step[r->stepped++];
    int64_t began_ns = monotonic_ns();
    act(r, &step->shut);
    act(r, &step->open);
    r->acted_ns = monotonic_ns();
    if (step->open.bytes)
        kick(r);
    if (step->shut.bytes | step->open.bytes)
        learn_lead(r, r->acted_ns - began_ns);
    take_refusals(r);
    while (monotonic_ns() < step->at_ns) /* no more than the lead: before, the rules would not agree */
        ;
}

/* When the next step is to be begun. */
static int64_t step_ns(const struct reflex *r) {
    return r->stepped < r->steps ? r->step[r->stepped].at_ns - r->lead_ns : INT64_MAX;
}

/* When to rehearse next: now and then while it polls; asleep, if a command came lately, and once when a step is near. */
static int64_t rehearsal_ns(const struct reflex *r, int64_t now_ns, int polled) {
    if (polled)
        return r->rehearsed_ns + r->rehearse_ns;
    int64_t near_ns = step_ns(r) - r->spin_ns, again_ns = r->rehearsed_ns + r->recall_ns;
    if (now_ns - r->commanded_ns < r->recent_ns && again_ns < near_ns)
        return again_ns;
    return r->rehearsed_ns < near_ns ? near_ns : INT64_MAX;
}

/* Waits until one of the descriptors is readable, a pause frame came, a step was made, or `due_ns` is there.
 *
 * `polled`: awake all the time, but for a rest now and then, and back soon. With `due_ns` past it only looks. The last of the
 * `count` entries is left for the pauses' socket. Returns how many of the others are readable, or -errno.
 */
int32_t reflex_wait(struct reflex *r, struct pollfd *descriptors, uint32_t count, int64_t due_ns, int32_t polled) {
    nfds_t watched = count - (r->pauses < 0);
    r->stepped = r->was_shut = r->was_opened = 0;
    r->refused = 0;
    for (int at = 0; r->ruled && at < r->queues; at++)
        r->queue[at].was_shut = r->queue[at].was_opened = 0;
    r->ruled = 0;
    int looked = 0;
    int64_t back_ns = polled ? monotonic_ns() + r->warm_ns : INT64_MAX;
    descriptors[count - 1] = (struct pollfd){.fd = r->pauses, .events = POLLIN};
    for (;;) {
        int64_t now_ns = monotonic_ns();
        while (step_ns(r) - now_ns < CLOSE_NS && now_ns < step_ns(r))
            now_ns = monotonic_ns();
        if (now_ns >= step_ns(r)) {
            make_step(r);
            due_ns = back_ns = step_ns(r) - now_ns < r->near_ns ? step_ns(r) : 0;
        }
        int time_to = now_ns >= rehearsal_ns(r, now_ns, polled) && now_ns < due_ns && step_ns(r) - now_ns > REHEARSAL_NS;
        if (time_to && looked)
            rehearse(r);
        int64_t until_ns = step_ns(r) - r->spin_ns < due_ns ? step_ns(r) - r->spin_ns : due_ns;
        if (!polled && r->rehearsal.bytes && rehearsal_ns(r, now_ns, 0) < until_ns)
            until_ns = rehearsal_ns(r, now_ns, 0);
        int64_t left_ns = until_ns > now_ns && !r->frames && looked >= time_to ? until_ns - now_ns : 0;
        if (polled && (now_ns < r->next_rest_ns || left_ns < 2 * r->rest_ns))
            left_ns = 0;
        else if (polled && left_ns > r->rest_ns)
            left_ns = r->rest_ns;
        if (!left_ns && r->pauses >= 0)
            take_pauses(r, now_ns < due_ns && !r->stepped); /* in polling, the shortest way */
        struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
        int ready = ppoll(descriptors, watched, &left, NULL);
        looked = 1;
        if (polled && left_ns)
            r->next_rest_ns = monotonic_ns() + r->polled_ns;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready < 0)
            return 0; /* a signal: its handler is the agent's */
        if (watched == count && descriptors[count - 1].revents) {
            take_pauses(r, monotonic_ns() < due_ns && !r->stepped);
            ready--;
        }
        now_ns = monotonic_ns();
        if (ready > 0 && r->armed && now_ns < due_ns && now_ns < step_ns(r) && !(r->stepped | r->was_shut | r->was_opened))
            for (nfds_t at = 0; at + 1 < count; at++)
                if (descriptors[at].fd == r->control && descriptors[at].revents)
                    take_conditions(r);
        if (now_ns >= step_ns(r) && ready <= 0 && !r->frames)
            continue;
        if (ready > 0 || r->frames || now_ns >= due_ns || now_ns >= back_ns)
            return ready;
    }
}
