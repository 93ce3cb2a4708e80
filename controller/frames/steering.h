/* The state of the loop of slots: the cores that it serves, what Python says to it, its last plan and its two sockets. */
#ifndef BATON_FRAMES_STEERING_H
#define BATON_FRAMES_STEERING_H
#include <pthread.h>

#include "gathered.h"

enum { PLANNERS = 2 };

/* What a plan of a core leaves: `struct counts` of the cores. */
struct planned {
    uint64_t last_number;
    uint32_t grants, revokes;
};

typedef void backlogs_function(void *, int64_t, uint32_t, const uint32_t *, const uint32_t *, const uint32_t *,
                               const int64_t *);
typedef void yields_function(void *, int64_t, uint32_t, const struct returned *);

/* A core, and its functions. Known to ctypes as `Planner`. */
struct planner {
    void *core;
    backlogs_function *backlogs;
    yields_function *yields;
    uint32_t (*unplaced)(void *); /* how many pairs have no place, after those that the core can place itself have one */
    void (*plan)(void *, int64_t, int64_t, struct planned *); /* NULL, as the rest: a core that chooses between the others */
    const struct row *(*grants)(const void *), *(*revokes)(const void *);
    int64_t (*next_event)(void *);
    void (*count)(void *, uint32_t, const struct row *); /* is told the first planner's grants */
    _Bool (*dirty)(const void *);                        /* whether a choice is to be made */
};

/* Known to ctypes as `Steering`: what Python says, under the lock. */
struct steering {
    int64_t lead_ns, slice_ns;
    int64_t review_ns; /* when Python wants to look at the policy next; NEVER: not of itself */
    uint64_t last_number;
    int64_t now_ns;      /* the latest time that a core was told */
    int64_t read_ns;     /* all frames that came before it have been read */
    /* The longest since Python has set them to 0: of all turns, waits for the lock, and delays of a plan that was due. */
    int64_t longest_turn_ns, longest_wait_ns, longest_delay_ns;
    /* Since Python has set them to 0: how long all turns took together; by how much plans were late that were due, and how many. */
    int64_t busy_ns, delayed_ns, plans_due;
    uint32_t planners, plans; /* how many there are; whether they plan */
    uint32_t watched_room;    /* so many grants more are told */
    uint32_t withheld, attend;
    uint32_t prompt; /* whether frames that wake nobody are read, and told, as they come */
    uint32_t unsaid, dropped; /* slots and frames that were not told, because Python had no time */
};

struct loop {
    struct steering steering;
    struct planner planners[PLANNERS], chooser;
    struct frames *frames;
    struct told told;
    struct gathered gathered;
    struct row *rows; /* the last plan: what it revokes, and then what it grants */
    uint32_t rows_room, rows_next, rows_end, revokes;
    int descriptors[INBOXES], wake, tell, signalled, stop, started, fed, put_off, left[INBOXES];
    uint32_t left_out;  /* slots that were granted and not told of */
    int64_t due_ns, looked_ns, until_ns, planned_ns, slots, yields;
    int64_t burst, burst_ns; /* the most slots of a plan of late, and when it was made */
    int steady;
    pthread_t thread;
};

#endif
