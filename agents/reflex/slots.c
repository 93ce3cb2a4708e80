/* An agent's reflex for slots: what most of its turns would do, done in C while its Python sleeps.
 *
 * It takes DIRECTIVE, waits for the start of slots, opens gates, sends ACK, looks whether slots are used, gives them back by
 * YIELD, and tells of the next packet by BACKLOG. It does so for slots of bytes, at gates that no rule restricts. Anything else
 * ends the wait, and the agent's Python does it: any other frame, which it gets as it came, with no trace of it here; a refusal
 * of the kernel's; another event of the classifier's; what is due. Before a wait the agent lends what it knows (struct slots),
 * and afterwards it takes that back. So there is one state, and one thread. See agents/reflex/slots.py. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "slot_events.h"

#define MOST_GRANTS_HERE ((LONGEST_BODY) / GRANT_BYTES)
#define KERNEL_SIGSET 8 /* bytes of the kernel's set of signals, which is shorter than the C library's */

uint64_t slots_size(void) { return sizeof(struct slots); }

void slots_keys(struct slots *s, const uint8_t *from_leader, const uint8_t *to_leader, const uint8_t *person) {
    blake2s_keyed(s->terms.from_leader, from_leader, person);
    blake2s_keyed(s->terms.to_leader, to_leader, person);
}

/* Takes a frame that came at `now_ns`; 0: it is not for here. */
int32_t slots_take(struct slots *s, const uint8_t *frame, uint64_t size, int64_t now_ns) {
    if (!can_take(s, frame, size))
        return 0;
    s->accepted++;
    s->terms.answered_ns = now_ns;
    if (frame[KIND_AT] != DIRECTIVE)
        return 1;
    memcpy(s->directive, frame, size);
    s->directive_bytes = (uint32_t)size;
    s->terms.poll_until_ns = 0;
    obey(s, frame + BODY, read2(frame + LENGTH_AT), now_ns);
    return 1;
}

/* Takes events of the classifier's; returns whether the next one is the agent's. */
int32_t slots_hear(struct slots *s, int64_t now_ns) { return take_events(s, now_ns); }

void slots_advance(struct slots *s, int64_t now_ns) { advance(s, now_ns); }

int64_t slots_next_ns(const struct slots *s) { return next_due_ns(s); }

/* When the agent must ask its leader for an answer, or open its gates; see agents/membership/answers.py. */
static int64_t question_ns(const struct terms *terms) {
    int64_t since_ns = terms->answered_ns > terms->free_ns ? terms->answered_ns : terms->free_ns;
    int64_t ask_ns = (since_ns > terms->asked_ns ? since_ns : terms->asked_ns) + terms->question_ns;
    return ask_ns < since_ns + terms->fail_open_ns ? ask_ns : since_ns + terms->fail_open_ns;
}

/* When the agent must read the heartbeats that wait. A frame that was obeyed shows that the leader lives, as a heartbeat does. */
static int64_t listen_ns(const struct terms *terms) {
    int64_t answered_ns = terms->answered_ns, looked_ns = terms->looked_ns, heard_ns = terms->heard_ns;
    int64_t latest_ns = (looked_ns > answered_ns ? looked_ns : answered_ns) + terms->within_ns;
    int64_t silent_ns = (heard_ns > answered_ns ? heard_ns : answered_ns) + terms->fail_open_ns;
    return latest_ns < silent_ns ? latest_ns : silent_ns;
}

static void receive(struct slots *s, int64_t now_ns) {
    ssize_t size = recv(s->terms.link_fd, s->raw, sizeof s->raw, MSG_DONTWAIT);
    if (size > 0 && !slots_take(s, s->raw, (uint64_t)size, now_ns))
        s->raw_bytes = (uint32_t)size;
}

static int must_return(const struct slots *s) {
    return s->raw_bytes || s->refused_errno || s->opened_count + MOST_GRANTS_HERE > EVENTS ||
           s->answer_count + MOST_GRANTS_HERE > EVENTS;
}

static int look(int epoll, struct epoll_event *found, const struct timespec *left, const sigset_t *mask) {
    return (int)syscall(SYS_epoll_pwait2, epoll, found, READY, left, mask, (size_t)KERNEL_SIGSET);
}

/* -errno: the kernel is older than epoll_pwait2(2), or refuses it; else 0. */
int32_t slots_can_wait(void) {
    struct epoll_event found[READY];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int failed = epoll < 0 || look(epoll, found, &(struct timespec){0, 0}, NULL) < 0 ? errno : 0;
    if (epoll >= 0)
        close(epoll);
    return -failed;
}

/* Serves what is readable; returns how many descriptors are the agent's. */
static int32_t serve(struct slots *s, const struct epoll_event *found, int count, int64_t now_ns) {
    int32_t others = 0;
    for (int at = 0; at < count; at++) {
        int fd = found[at].data.fd;
        if (fd == s->terms.link_fd)
            receive(s, now_ns);
        else if (fd == s->terms.netlink_fd)
            read_answers(s, 0);
        else if (fd != s->terms.events_fd || take_events(s, now_ns))
            s->ready_fd[others++] = fd;
    }
    return others;
}

static int32_t wait_here(struct slots *s, int32_t epoll, int64_t due_ns, const sigset_t *mask) {
    struct terms *terms = &s->terms;
    struct epoll_event found[READY];
    int held = holds(s), ready = 0;
    for (;;) {
        int64_t now_ns = clock_now(s);
        int32_t others = serve(s, found, ready, now_ns);
        int64_t next_ns = next_due_ns(s);
        if (now_ns >= next_ns) {
            advance(s, now_ns);
            next_ns = next_due_ns(s);
        }
        int holding = holds(s);
        if (!holding || !held)
            terms->free_ns = now_ns;
        held = holding;
        int64_t until_ns = listen_ns(terms) < due_ns ? listen_ns(terms) : due_ns;
        if (holding && question_ns(terms) < until_ns)
            until_ns = question_ns(terms);
        if (must_return(s) || others || now_ns >= until_ns)
            return others;
        if (next_ns < until_ns)
            until_ns = next_ns;
        int64_t left_ns = until_ns > now_ns && now_ns >= terms->poll_until_ns ? until_ns - now_ns : 0;
        struct timespec left = {left_ns / SECOND_NS, left_ns % SECOND_NS};
        ready = look(epoll, found, &left, mask);
        if (ready < 0)
            return errno == EINTR ? 0 : -errno; /* a signal; the agent handles it */
    }
}

/* Obeys slots until the agent's Python has something to do, at `due_ns` at the latest.
 *
 * `epoll` has all descriptors: those of `struct terms`, which are served here, and others. Returns how many of the others are
 * readable (`ready_fd`), or -errno. A signal ends the wait, also one that comes just before it. */
int32_t slots_wait(struct slots *s, int32_t epoll, int64_t due_ns) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int32_t found = wait_here(s, epoll, due_ns, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return found;
}
