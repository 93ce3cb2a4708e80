/* What the slot reflex keeps, and shares with agents/reflex/slot_state.py: the terms of one wait, gates, slots, and what became
 * of them. Times are ns of CLOCK_MONOTONIC. */
#ifndef BATON_SLOTS_H
#define BATON_SLOTS_H
#include <stdint.h>

#include "blake2s.h"
#include "replay_window.h"
#include "wire.h"

#define DESTINATIONS 64
#define WAITING 64
#define EVENTS 128 /* opened slots, and answers, between two turns of the agent */
#define ROOM 2048
#define READY 16       /* descriptors that one look finds readable */
#define NEVER INT64_MAX
#define FAR (1LL << 62) /* no time of use is as far from 0 */

/* Known to ctypes as `Terms`. */
struct terms {
    int32_t link_fd, netlink_fd, events_fd;
    uint32_t epoch, node;
    uint64_t unwanted;      /* bit n: no part of the agent handles messages of type n */
    uint64_t sequence;      /* of the agent's last frame */
    struct replay_window window; /* of the leader's frames to this host alone */
    int64_t offset_ns, taken_ns, drift_ppb; /* of the clock's best sample (agents/loop/clock.py) */
    int64_t hysteresis_ns, link_bps;
    int64_t answered_ns; /* when the newest frame to this host alone came */
    int64_t heard_ns, looked_ns, within_ns; /* see agents/membership/heartbeat_monitor.py */
    int64_t free_ns, asked_ns, fail_open_ns, question_ns; /* see agents/membership/answers.py */
    int64_t poll_until_ns; /* awaits a directive so long without sleeping */
    int64_t poll_ns;       /* so long after a BACKLOG */
    uint64_t report;       /* the number of the last BACKLOG */
    uint32_t tag_bytes;
    uint8_t tag[4], address[6], leader[6], enrolment[ENROLMENT];
    uint32_t from_leader[8], to_leader[8];
};

/* The kernel's side of one destination's gate: messages that ask for no acknowledgement. Known to ctypes as `Gate`. */
struct gate {
    uint8_t *grant; /* and then a query for its state */
    const uint8_t *shut;
    uint32_t *armed; /* in the classifier's table */
    uint32_t grant_bytes, query_bytes, shut_bytes, burst_at, ticks_at, node;
    uint32_t packet_bytes; /* the smallest bucket */
};

/* What agents/permission/gatekeeper.py knows of a destination. Known to ctypes as `Destination`. */
struct destination {
    int64_t waiting_bytes;  /* 0: none */
    int64_t reported_ns;    /* NEVER: not, or answered */
    int64_t next_check_ns;  /* NEVER: none */
    int64_t used_up_until_ns;
    int64_t outstanding;
    uint64_t slot;          /* the open one, if `open` */
    int64_t end_ns, bytes, passed_before, passed_at_check, check_after_ns;
    uint8_t open;
    uint8_t named;          /* a directive or an event named it in this wait */
};

/* Known to ctypes as `Slot`. */
struct slot {
    uint64_t number;
    int64_t start_ns, end_ns, bytes, received_ns;
    uint32_t at; /* its destination's place */
};

/* Known to ctypes as `Opened`. */
struct opened {
    int64_t opened_ns, start_ns, received_ns;
};

/* The classifier's events, a ring buffer of BPF. Known to ctypes as `Ring`. */
struct ring {
    uint64_t *consumed;       /* NULL: there is none */
    const uint64_t *produced;
    const uint8_t *records;   /* twice in a row */
    uint64_t bytes;           /* a power of 2 */
};

/* What tests put in the place of clock and kernel; all NULL otherwise. */
struct hooks {
    int64_t (*clock)(void);
    void (*grant)(uint32_t node, uint32_t bytes);
    void (*shut)(uint32_t node);
    void (*state)(uint32_t node, int64_t *passed, int64_t *backlog);
};

/* Known to ctypes as `State`. */
struct slots {
    struct terms terms;
    uint32_t destination_count, waiting_count;
    /* results: */
    uint32_t accepted, reported, yields, opened_count, answer_count, raw_bytes, directive_bytes;
    int32_t refused_errno;
    int64_t voided_bytes;
    struct ring ring;
    struct hooks hooks;
    struct opened opened[EVENTS];
    int64_t answer_ns[EVENTS];
    int32_t ready_fd[READY]; /* of those that are the agent's */
    struct slot waiting[WAITING];
    struct destination destination[DESTINATIONS];
    struct gate gate[DESTINATIONS];
    uint8_t raw[ROOM];       /* the frame that ended the wait: it is the agent's */
    uint8_t directive[ROOM]; /* the last one that was obeyed */
};

#endif
