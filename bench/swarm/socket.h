/* The socket of all hosts: it sends their frames in batches, and takes what came for each of them. */
#ifndef BATON_SWARM_SOCKET_H
#define BATON_SWARM_SOCKET_H
#include <errno.h>
#include <sys/socket.h>

#include "clock.h"
#include "pages.h"

/* Sends frames, the first PING of them not before the time that is noted as when it was asked: each frame that leaves may wake
 * the coordinator at once on this processor, so those before it take a while. */
static void flush(struct swarm *s) {
    struct mmsghdr message[OUT] = {0};
    struct iovec part[OUT];
    uint32_t ping = s->out_ping ? s->out_ping - 1 : OUT;
    for (uint32_t at = 0; at < s->out_count; at++) {
        part[at] = (struct iovec){s->out[at], s->out_bytes[at]};
        message[at].msg_hdr = (struct msghdr){.msg_iov = &part[at], .msg_iovlen = 1};
    }
    for (uint32_t done = 0; done < s->out_count;) {
        uint32_t until = done < ping && ping < s->out_count ? ping : s->out_count;
        if (done == ping && s->asked_ns <= s->served_ns)
            s->asked_ns = clock_ns(CLOCK_MONOTONIC);
        int count = sendmmsg(s->fd, message + done, until - done, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) { /* the interface takes no more: this one is lost */
            done++;
            continue;
        }
        s->counts.sent += (uint64_t)count;
        done += (uint32_t)count;
    }
    s->out_count = s->out_ping = 0;
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
    if (!window_accepts(&h->window, get(frame + AT_SEQUENCE, 8))) {
        s->counts.refused++;
        return;
    }
    if (s->asked_ns > s->served_ns)
        note_stop(&s->gaps, s->asked_ns, came_ns);
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

#endif
