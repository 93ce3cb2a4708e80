/* An agent's reflex: C code that changes gates within microseconds, while the agent waits and before its Python runs.
 *
 * Three events are that urgent: a pause frame (IEEE 802.1Qbb PFC, IEEE 802.3x PAUSE), the instant at which a day of a week
 * ends or begins, and a message of the leader that says which queues may send (CONDITIONS of protocol/PROTOCOL.md). Before
 * each wait the agent stores the prebuilt rtnetlink messages that each of these events would need; the code here only chooses
 * among them. Then the wait returns, and the agent's rules handle the same event. If the two ever differ, the rules decide.
 * One thread; all state that outlives a wait is in `struct reflex`. See agents/reflex/reflex.py.
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
#include "wire.h"

#define CLASSES 8
#define FRAMES 64        /* read in one wait; a flood is read in several waits */
#define FRAME_BYTES 64   /* stored of each frame; a pause frame has 60 */
#define PARTNERS 32
#define STEPS 2
#define QUEUES 128
#define LEAD_STEP_NS 1000
#define REHEARSAL_NS 20000 /* a rehearsal usually takes less than this */
#define CLOSE_NS 10000   /* when a step is nearer than this, the wait only spins */

enum { WHOLE = 60, OPCODE_AT = 14, ENABLE_AT = 16, TIMES_AT = 18, PFC = 0x0101, PAUSE = 0x0001 };
/* A CONDITIONS body (protocol/bodies/host_control.py) */
enum { CONDITIONS = 20, PAGE_AT = 8, ONE_PAGE = 1, HEAD = 12, ENTRY = 32, FROM_AT = 8, UNTIL_AT = 16, RATE_AT = 24 };
static const uint8_t GROUP_AND_TYPE[] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x88, 0x08};

struct batch {           /* consecutive rtnetlink messages that request no acknowledgement */
    const uint8_t *messages;
    uint64_t bytes;
};

struct step {
    int64_t at_ns;       /* CLOCK_MONOTONIC */
    struct batch close, open;
};

struct queue {           /* of one destination */
    uint32_t number;
    uint8_t blocked;     /* it has conditions, and none of them is met */
    uint8_t was_closed, was_opened;
    struct batch close, open;
};

struct reflex {
    int32_t pause_fd;    /* packet socket on which pause frames arrive; -1: the reflex handles no pauses */
    int32_t netlink_fd, link_fd;
    uint8_t wakeup[WHOLE]; /* sent on `link_fd` after a gate was opened: wakes the interface's queues */
    uint8_t paused, ignored; /* bit n: class n. Ignored: pauses of the class have no effect */
    uint8_t armed;       /* whether `close` and `open` are what the rules would do; else frames are only stored */
    uint16_t partner_count; /* 0: frames from every sender count */
    uint8_t partner[PARTNERS][6];
    struct batch close[CLASSES], open[CLASSES];
    struct step step[STEPS]; /* in the order of their times */
    int64_t lead_ns, longest_lead_ns; /* a step begins this much early: the least time that its messages take */
    int32_t control_fd;  /* packet socket on which the leader's frames arrive; -1: the agent handles conditions alone */
    uint8_t own_address[6], leader_address[6];
    uint32_t epoch;
    uint64_t sequence;   /* of the newest accepted frame */
    int64_t offset_ns;   /* the leader's clock minus CLOCK_MONOTONIC */
    uint8_t version;     /* of the frames, as agreed with the leader */
    uint32_t key[8];     /* see blake2s_keyed */
    uint16_t queue_count;
    struct queue queue[QUEUES];
    int64_t spin_ns;     /* so long before a step the wait stops sleeping and spins */
    int64_t near_ns;     /* when the next step follows this soon, the wait stays for it before the agent has its turn */
    int64_t poll_ns, rest_ns, next_rest_ns; /* a polling wait sleeps `rest_ns` after each `poll_ns` */
    struct batch rehearsal; /* a message that the kernel refuses; see rehearse */
    int64_t rehearsed_ns, rehearse_polling_ns, rehearse_asleep_ns; /* the last rehearsal; the interval polling, and asleep */
    int64_t commanded_ns, recent_command_ns; /* when a frame last changed a gate; a sleeping wait rehearses so long after it */
    int64_t turn_ns;     /* a polling wait returns after this time, so that the agent's Python runs */
    /* results, for the agent: */
    int64_t step_done_ns; /* when the last step had been made */
    uint8_t queues_changed; /* whether a condition closed or opened any queue */
    uint8_t was_closed, was_opened; /* classes, by their last frame */
    uint8_t step_count, steps_done;
    uint8_t frame_count; /* stored until the agent takes them */
    int32_t refused_errno; /* of a message that the kernel refused */
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

static void send_batch(struct reflex *r, const struct batch *batch) {
    if (batch->bytes && send(r->netlink_fd, batch->messages, batch->bytes, 0) < 0)
        r->refused_errno = errno;
}

static void wake_queues(struct reflex *r) { send(r->link_fd, r->wakeup, sizeof r->wakeup, MSG_DONTWAIT); }

/* The kernel answers only messages that it refuses. */
static void read_refusals(struct reflex *r) {
    uint8_t answer[512];
    ssize_t got;
    while ((got = recv(r->netlink_fd, answer, sizeof answer, MSG_DONTWAIT)) > 0) {
        const struct nlmsghdr *header = (const void *)answer;
        if (got >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)) && header->nlmsg_type == NLMSG_ERROR)
            r->refused_errno = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
    }
}

/* Runs the whole path of a command without effect. Code that did not run for a millisecond has left the processor's near
 * caches (another thread on the same core uses them), and then takes twice as long. */
static void rehearse(struct reflex *r) {
    static const uint8_t nothing[2 * BLAKE2S_BLOCK];
    uint8_t answer[512];
    if (!r->rehearsal.bytes)
        return;
    if (send(r->netlink_fd, r->rehearsal.messages, r->rehearsal.bytes, 0) > 0)
        recv(r->netlink_fd, answer, sizeof answer, MSG_DONTWAIT);
    wake_queues(r);
    blake2s_verifies(r->key, nothing, sizeof nothing, nothing);
    r->rehearsed_ns = monotonic_ns();
}

/* Finds the classes that a frame pauses (`close`) and resumes (`open`); none for a frame that the agent only counts. The
 * checks are those of protocol/pfc.py. */
static void read_pause(const struct reflex *r, const uint8_t *frame, uint64_t length, uint8_t *close, uint8_t *open) {
    *close = *open = 0;
    if (length < WHOLE || memcmp(frame, GROUP_AND_TYPE, 6) || memcmp(frame + 12, GROUP_AND_TYPE + 6, 2))
        return;
    uint16_t opcode = read2(frame + OPCODE_AT), enabled = read2(frame + ENABLE_AT);
    if (opcode == PAUSE)
        enabled = 0xff;
    else if (opcode != PFC || enabled >> CLASSES)
        return;
    int known = !r->partner_count;
    for (int at = 0; at < r->partner_count; at++)
        known |= !memcmp(frame + 6, r->partner[at], 6);
    for (int class = 0; known && class < CLASSES; class++)
        if (enabled >> class & 1 && !(r->ignored >> class & 1)) {
            int at = opcode == PAUSE ? ENABLE_AT : TIMES_AT + 2 * class;
            *(read2(frame + at) ? close : open) |= 1 << class;
        }
}

void reflex_read(const struct reflex *r, const uint8_t *frame, uint64_t length, uint8_t *close, uint8_t *open) {
    read_pause(r, frame, length, close, open);
}

static void take_pauses(struct reflex *r, int may_open) {
    int changed = 0;
    while (r->frame_count < FRAMES) {
        uint8_t close, open, *frame = r->frame[r->frame_count];
        ssize_t length = recv(r->pause_fd, frame, FRAME_BYTES, MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0)
            break;
        r->length[r->frame_count++] = length < FRAME_BYTES ? length : FRAME_BYTES;
        read_pause(r, frame, length, &close, &open);
        close &= r->armed ? ~r->paused : 0;
        open &= r->armed && may_open ? r->paused : 0;
        int opened = 0;
        for (int class = 0; class < CLASSES; class++)
            if (close >> class & 1)
                send_batch(r, &r->close[class]);
        for (int class = 0; class < CLASSES; class++)
            if (open >> class & 1) {
                send_batch(r, &r->open[class]);
                opened |= r->open[class].bytes != 0;
            }
        if (opened)
            wake_queues(r);
        changed |= close | open;
        r->paused = (r->paused | close) & ~open;
        r->was_closed = (r->was_closed | close) & ~open;
        r->was_opened = (r->was_opened | open) & ~close;
    }
    if (changed) {
        r->commanded_ns = monotonic_ns();
        read_refusals(r);
    }
}

/* Returns whether a frame is authentic, the leader's newest, and a full state of conditions that names only known queues and
 * no rates; then `blocked` has the queues that it blocks. The checks are those of protocol/wire.py, protocol/auth.py and
 * protocol/bodies/host_control.py. */
static int read_conditions(const struct reflex *r, const uint8_t *frame, uint64_t length, int64_t now_ns, uint8_t *blocked) {
    if (length < BODY + HEAD + BLAKE2S_TAG || frame[KIND_AT] != CONDITIONS || memcmp(frame, r->own_address, 6) ||
        memcmp(frame + 6, r->leader_address, 6) || read2(frame + TYPE_AT) != ETHERTYPE ||
        read2(frame + MAGIC_AT) != MAGIC || frame[VERSION_AT] != r->version || read2(frame + FLAGS_AT))
        return 0;
    uint64_t size = read2(frame + LENGTH_AT), now = (uint64_t)(now_ns + r->offset_ns);
    const uint8_t *body = frame + BODY, *end = body + size;
    if (BODY + size + BLAKE2S_TAG != length || (size - HEAD) % ENTRY || read4(frame + SENDER_AT) != LEADER ||
        read4(frame + EPOCH_AT) != r->epoch || read8(frame + SEQUENCE_AT) <= r->sequence ||
        read4(body + PAGE_AT) != ONE_PAGE || !blake2s_verifies(r->key, frame, BODY + size, end))
        return 0;
    enum { UNSAID, NOT_MET, MET };
    memset(blocked, UNSAID, r->queue_count);
    for (const uint8_t *entry = body + HEAD; entry < end; entry += ENTRY) {
        uint64_t from = read8(entry + FROM_AT), until = read8(entry + UNTIL_AT), at = 0;
        while (at < r->queue_count && r->queue[at].number != read4(entry))
            at++;
        if (at == r->queue_count || until < from || read8(entry + RATE_AT))
            return 0;
        if (blocked[at] != MET)
            blocked[at] = from <= now && now < until ? MET : NOT_MET;
    }
    for (int at = 0; at < r->queue_count; at++)
        blocked[at] = blocked[at] == NOT_MET;
    return 1;
}

int32_t reflex_read_conditions(const struct reflex *r, const uint8_t *frame, uint64_t length, int64_t now_ns,
                               uint8_t *blocked) {
    return read_conditions(r, frame, length, now_ns, blocked);
}

/* Leaves the frame in the socket: the agent reads it too. */
static void take_conditions(struct reflex *r) {
    uint8_t frame[LONGEST], blocked[QUEUES];
    ssize_t length = recv(r->control_fd, frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 || length > LONGEST || !read_conditions(r, frame, length, monotonic_ns(), blocked))
        return;
    int opened = 0;
    for (struct queue *queue = r->queue; queue < r->queue + r->queue_count; queue++)
        if (blocked[queue - r->queue] && !queue->blocked) {
            send_batch(r, &queue->close);
            queue->was_closed = r->queues_changed = 1;
        }
    for (struct queue *queue = r->queue; queue < r->queue + r->queue_count; queue++)
        if (!blocked[queue - r->queue] && queue->blocked) {
            send_batch(r, &queue->open);
            queue->was_opened = r->queues_changed = 1;
            opened |= queue->open.bytes != 0;
        }
    if (opened)
        wake_queues(r);
    if (r->queues_changed) {
        r->commanded_ns = monotonic_ns();
        read_refusals(r);
    }
}

/* Tracks the least time that a step's messages take; it grows slowly when they take longer. */
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
    const struct step *step = &r->step[r->steps_done++];
    int64_t began_ns = monotonic_ns();
    send_batch(r, &step->close);
    send_batch(r, &step->open);
    r->step_done_ns = monotonic_ns();
    if (step->open.bytes)
        wake_queues(r);
    if (step->close.bytes | step->open.bytes)
        learn_lead(r, r->step_done_ns - began_ns);
    read_refusals(r);
    while (monotonic_ns() < step->at_ns) /* at most the lead: before this instant the rules would undo the step */
        ;
}

/* When to begin the next step. */
static int64_t step_ns(const struct reflex *r) {
    return r->steps_done < r->step_count ? r->step[r->steps_done].at_ns - r->lead_ns : INT64_MAX;
}

/* When to rehearse next. A polling wait rehearses at intervals; a sleeping one after a recent command, and before a step. */
static int64_t rehearsal_ns(const struct reflex *r, int64_t now_ns, int polled) {
    if (polled)
        return r->rehearsed_ns + r->rehearse_polling_ns;
    int64_t near_ns = step_ns(r) - r->spin_ns, again_ns = r->rehearsed_ns + r->rehearse_asleep_ns;
    if (now_ns - r->commanded_ns < r->recent_command_ns && again_ns < near_ns)
        return again_ns;
    return r->rehearsed_ns < near_ns ? near_ns : INT64_MAX;
}

/* Waits until a descriptor is readable, a pause frame arrived, a step was made, or `due_ns` has come.
 *
 * `polled`: stays awake except for short rests, and returns after `turn_ns`. If `due_ns` is past, it polls once and returns.
 * The last of the `count` entries is reserved for `pause_fd`. Returns how many of the others are readable, or -errno.
 */
int32_t reflex_wait(struct reflex *r, struct pollfd *descriptors, uint32_t count, int64_t due_ns, int32_t polled) {
    nfds_t watched = count - (r->pause_fd < 0);
    r->steps_done = r->was_closed = r->was_opened = 0;
    r->refused_errno = 0;
    for (int at = 0; r->queues_changed && at < r->queue_count; at++)
        r->queue[at].was_closed = r->queue[at].was_opened = 0;
    r->queues_changed = 0;
    int polled_once = 0;
    int64_t back_ns = polled ? monotonic_ns() + r->turn_ns : INT64_MAX;
    descriptors[count - 1] = (struct pollfd){.fd = r->pause_fd, .events = POLLIN};
    for (;;) {
        int64_t now_ns = monotonic_ns();
        while (step_ns(r) - now_ns < CLOSE_NS && now_ns < step_ns(r))
            now_ns = monotonic_ns();
        if (now_ns >= step_ns(r)) {
            make_step(r);
            due_ns = back_ns = step_ns(r) - now_ns < r->near_ns ? step_ns(r) : 0;
        }
        int rehearsal_due = now_ns >= rehearsal_ns(r, now_ns, polled) && now_ns < due_ns && step_ns(r) - now_ns > REHEARSAL_NS;
        if (rehearsal_due && polled_once)
            rehearse(r);
        int64_t until_ns = step_ns(r) - r->spin_ns < due_ns ? step_ns(r) - r->spin_ns : due_ns;
        if (!polled && r->rehearsal.bytes && rehearsal_ns(r, now_ns, 0) < until_ns)
            until_ns = rehearsal_ns(r, now_ns, 0);
        int64_t left_ns = until_ns > now_ns && !r->frame_count && polled_once >= rehearsal_due ? until_ns - now_ns : 0;
        if (polled && (now_ns < r->next_rest_ns || left_ns < 2 * r->rest_ns))
            left_ns = 0;
        else if (polled && left_ns > r->rest_ns)
            left_ns = r->rest_ns;
        if (!left_ns && r->pause_fd >= 0)
            take_pauses(r, now_ns < due_ns && !r->steps_done); /* while polling, the shortest path */
        struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
        int ready = ppoll(descriptors, watched, &left, NULL);
        polled_once = 1;
        if (polled && left_ns)
            r->next_rest_ns = monotonic_ns() + r->poll_ns;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready < 0)
            return 0; /* a signal; the agent handles it */
        if (watched == count && descriptors[count - 1].revents) {
            take_pauses(r, monotonic_ns() < due_ns && !r->steps_done);
            ready--;
        }
        now_ns = monotonic_ns();
        if (ready > 0 && r->armed && now_ns < due_ns && now_ns < step_ns(r) && !(r->steps_done | r->was_closed | r->was_opened))
            for (nfds_t at = 0; at + 1 < count; at++)
                if (descriptors[at].fd == r->control_fd && descriptors[at].revents)
                    take_conditions(r);
        if (now_ns >= step_ns(r) && ready <= 0 && !r->frame_count)
            continue;
        if (ready > 0 || r->frame_count || now_ns >= due_ns || now_ns >= back_ns)
            return ready;
    }
}
