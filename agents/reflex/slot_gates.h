/* The kernel's gates as the slot reflex changes and reads them: what agents/queues/gates.py and agents/kernel/netlink.py do for a
 * TBF, with messages that the kernel answers only if it refuses them. */
#ifndef BATON_SLOT_GATES_H
#define BATON_SLOT_GATES_H
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "slots.h"

enum { IDLE_RATE_BPS = 32000, TICK_NS = 64 }; /* agents/queues/gates.py, agents/kernel/qdiscs.py */
enum { STATS2 = 7, STATS_BASIC = 1, STATS_QUEUE = 3, ANSWER = 4096 };

struct state {
    int64_t passed, backlog;
};

static void tell_kernel(struct slots *s, const uint8_t *message, uint32_t bytes) {
    if (send(s->terms.netlink_fd, message, bytes, 0) < 0)
        s->refused_errno = errno;
}

/* Grants, and asks for the state in the same call. */
static void tell_grant(struct slots *s, struct gate *gate, uint32_t bytes) {
    uint32_t burst = bytes > gate->packet_bytes ? bytes : gate->packet_bytes;
    unsigned __int128 most = (unsigned __int128)burst * 8 * 1000000000 / IDLE_RATE_BPS / TICK_NS;
    uint32_t ticks = most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
    memcpy(gate->grant + gate->burst_at, &burst, sizeof burst);
    memcpy(gate->grant + gate->ticks_at, &ticks, sizeof ticks);
    tell_kernel(s, gate->grant, gate->grant_bytes + gate->query_bytes);
}

static void gate_shut(struct slots *s, struct gate *gate) {
    if (s->hooks.shut)
        s->hooks.shut(gate->node);
    else
        tell_kernel(s, gate->shut, gate->shut_bytes);
}

static void gate_arm(struct gate *gate) { __atomic_store_n(gate->armed, 1, __ATOMIC_SEQ_CST); }

/* The next attribute of one kind in `length` bytes of attributes; NULL: there is none. */
static const struct rtattr *find_attribute(const struct rtattr *at, int length, unsigned short kind) {
    while (RTA_OK(at, length)) {
        if ((at->rta_type & NLA_TYPE_MASK) == kind)
            return at;
        at = RTA_NEXT(at, length);
    }
    return NULL;
}

static void read_state(const struct nlmsghdr *answer, struct state *found) {
    uint32_t waiting;
    int length = (int)answer->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct tcmsg));
    const struct rtattr *first = (const void *)((const uint8_t *)answer + NLMSG_LENGTH(sizeof(struct tcmsg)));
    const struct rtattr *all = find_attribute(first, length, STATS2), *at;
    if (!all)
        return;
    if ((at = find_attribute(RTA_DATA(all), RTA_PAYLOAD(all), STATS_BASIC)) && RTA_PAYLOAD(at) >= sizeof found->passed)
        memcpy(&found->passed, RTA_DATA(at), sizeof found->passed);
    if ((at = find_attribute(RTA_DATA(all), RTA_PAYLOAD(all), STATS_QUEUE)) && RTA_PAYLOAD(at) >= 2 * sizeof waiting) {
        memcpy(&waiting, (const uint8_t *)RTA_DATA(at) + sizeof waiting, sizeof waiting);
        found->backlog = waiting;
    }
}

/* Reads what the kernel has answered: refusals, and the state that was asked for, if `asked`. */
static struct state read_answers(struct slots *s, int asked) {
    struct state found = {0, 0};
    union {
        struct nlmsghdr header;
        uint8_t bytes[ANSWER];
    } answer;
    ssize_t got;
    while ((got = recv(s->terms.netlink_fd, &answer, sizeof answer, MSG_DONTWAIT)) >= (ssize_t)sizeof answer.header) {
        const struct nlmsghdr *header = &answer.header;
        if (header->nlmsg_len > (uint64_t)got)
            continue;
        if (header->nlmsg_type == NLMSG_ERROR && got >= (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
            int error = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
            s->refused_errno = error ? error : s->refused_errno;
        } else if (header->nlmsg_type == RTM_NEWQDISC && header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct tcmsg))) {
            read_state(header, &found);
            return found;
        }
    }
    if (asked && !s->refused_errno)
        s->refused_errno = EIO;
    return found;
}

/* The bytes that have passed the gate and those that wait at it; if the kernel refused anything, `refused_errno` says so. */
static struct state gate_state(struct slots *s, struct gate *gate) {
    struct state found = {0, 0};
    if (s->hooks.state) {
        s->hooks.state(gate->node, &found.passed, &found.backlog);
        return found;
    }
    tell_kernel(s, gate->grant + gate->grant_bytes, gate->query_bytes);
    return read_answers(s, 1);
}

/* Lets so many bytes pass; returns the state after that. */
static struct state gate_grant(struct slots *s, struct gate *gate, uint32_t bytes) {
    if (s->hooks.grant)
        s->hooks.grant(gate->node, bytes);
    else
        tell_grant(s, gate, bytes);
    return s->hooks.state ? gate_state(s, gate) : read_answers(s, 1);
}

#endif
