/* The loop of slots: a thread that receives, has the policy's cores plan, and sends, without Python (controller/frames/loop.py).
 *
 * It holds the lock of the frames' state from when it has been woken until all is sent, some hundred microseconds at most; who else
 * touches that state or the cores holds it, too. What Python must know, or has to do, it is told in batches (told.h). */
#ifndef BATON_LOOP_H
#define BATON_LOOP_H
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "told.h"

#define TURN_NS 150000      /* no batch begins later after the turn's begin */
#define LOOK_NS 5000000     /* so often frames are read that wake nobody, and Python is told of what may wait */
#define FULL_NS 200000      /* so often it looks whether Python has made room */
#define TAKEN_AT_ONCE 64    /* frames that are received by one call: some 200 us */
#define CHUNK_ROWS 64      /* slots of a plan that are sent before frames are taken again */
#define FORESIGHT_NS 100000000
#define LONGEST_FORESIGHT_NS 40000000
#define FORESIGHT_SLICES 2
#define MANY_SLOTS 10000LL  /* a second; see controller/scheduling/foresight.py */
#define GIVEN_BACK 16
#define PLANS_A_SLICE 8     /* a plan that reaches farther is made in pieces */
#define STACK_BYTES (512 << 10)

enum { PLANNERS = 2 };

/* What a plan of a core leaves: `struct counts` of the cores. */
struct planned {
    uint64_t last_number;
    uint32_t grants, revokes;
};

typedef void backlogs_function(void *, int64_t, uint32_t, const uint32_t *, const uint32_t *, const uint32_t *, const int64_t *);
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
    struct row *rows; /* the last plan: what it revokes, and then what it grants */
    uint32_t rows_room, rows_next, rows_end, revokes;
    int descriptors[INBOXES], wake, tell, signalled, stop, started, fed, left[INBOXES];
    uint32_t uncounted; /* frames that were taken and not told of */
    int64_t due_ns, looked_ns, until_ns, planned_ns, slots, yields;
    int steady;
    pthread_t thread;
};

/* -- plans -------------------------------------------------------------------------------------------------------- */

static int64_t horizon_of(struct loop *loop, int64_t reach_ns) {
    const struct tally *tally = &loop->frames->book.tally;
    int64_t passed_ns = reach_ns - loop->looked_ns;
    if (passed_ns >= FORESIGHT_NS) {
        int64_t granted = tally->slots - loop->slots, returned = tally->yields - loop->yields;
        loop->steady = (__int128)granted * SECOND_NS > (__int128)MANY_SLOTS * passed_ns && GIVEN_BACK * returned <= granted;
        loop->looked_ns = reach_ns;
        loop->slots = tally->slots;
        loop->yields = tally->yields;
    }
    if (reach_ns >= loop->until_ns) {
        int64_t ahead_ns = FORESIGHT_SLICES * loop->steering.slice_ns;
        loop->until_ns = reach_ns + (!loop->steady ? 0 : ahead_ns < LONGEST_FORESIGHT_NS ? ahead_ns : LONGEST_FORESIGHT_NS);
    }
    return loop->until_ns;
}

static int is_watched(struct frames *f, const struct row *row) {
    const struct slot *slot = book_find(&f->book, (uint64_t)row->slot);
    return slot && slot->flags & WATCHED;
}

/* Sends the next slots of a plan, at most `CHUNK_ROWS`, and tells of them what Python follows: watched ones, and those of members
 * unknown here. */
static void carry_on(struct loop *loop, int64_t now_ns) {
    struct frames *f = loop->frames;
    struct steering *steering = &loop->steering;
    uint32_t left = loop->rows_end - loop->rows_next, count = left < CHUNK_ROWS ? left : CHUNK_ROWS;
    uint32_t revokes = loop->rows_next >= loop->revokes ? 0 : loop->revokes - loop->rows_next;
    revokes = revokes < count ? revokes : count;
    const struct row *revoked = loop->rows + loop->rows_next, *granted = revoked + revokes;
    uint32_t grants = count - revokes, watched = grants < steering->watched_room ? grants : steering->watched_room;
    struct told_plan plan = {.kind = TOLD_PLAN, .now_ns = now_ns};
    int has_room = told_has_room(&loop->told);
    uint8_t *at = told_end(&loop->told) + sizeof plan;
    loop->rows_next += count;
    watched = has_room ? watched : 0;
    for (uint32_t one = 0; has_room && one < revokes; one++)
        if (is_watched(f, &revoked[one])) {
            at = told_put(at, &revoked[one], sizeof *revoked);
            plan.revoked++;
        }
    plan.granted = watched;
    plan.left_out = grants - watched;
    steering->watched_room -= watched;
    at = told_put(at, granted, has_room ? watched * sizeof *granted : 0);
    frames_direct(f, loop->descriptors[0], revokes, revoked, grants, granted, watched, now_ns);
    steering->withheld += f->counts.withheld;
    if (!has_room) {
        steering->unsaid += f->counts.others;
        return;
    }
    for (uint32_t one = 0; one < f->counts.others; one++) {
        plan.others_revoked += f->others[one] < revokes;
        plan.others++;
        at = told_put(at, &revoked[f->others[one]], sizeof *revoked);
    }
    steering->attend |= plan.others > 0;
    if (!plan.revoked && !plan.granted && !plan.others && !plan.left_out)
        return;
    memcpy(told_end(&loop->told), &plan, sizeof plan);
    told_close(&loop->told, at, now_ns);
}

/* Puts the revoked slots of all planners, then their grants, into rows to be sent. Without memory they are lost. */
static void gather(struct loop *loop, const struct planned *of, uint32_t revokes, uint32_t grants) {
    if (loop->rows_room < revokes + grants) {
        struct row *more = realloc(loop->rows, 2UL * (revokes + grants) * sizeof *more);
        if (!more)
            return;
        loop->rows = more;
        loop->rows_room = 2 * (revokes + grants);
    }
    loop->rows_next = 0;
    loop->rows_end = revokes + grants;
    loop->revokes = revokes;
    struct row *at = loop->rows;
    for (int grant = 0; grant < 2; grant++)
        for (uint32_t one = 0; one < loop->steering.planners; one++) {
            const struct planner *planner = &loop->planners[one];
            uint32_t count = grant ? of[one].grants : of[one].revokes;
            if (count)
                memcpy(at, (grant ? planner->grants : planner->revokes)(planner->core), count * sizeof *at);
            at += count;
        }
}

static void plan(struct loop *loop, int64_t now_ns) {
    struct steering *steering = &loop->steering;
    struct planned of[PLANNERS] = {{0}};
    uint32_t revokes = 0, grants = 0;
    int64_t event_ns = NEVER;
    loop->due_ns = NEVER;
    if (!steering->plans || !steering->planners)
        return;
    for (uint32_t one = 0; one < steering->planners; one++)
        loop->planners[one].unplaced(loop->planners[one].core);
    int64_t reach_ns = now_ns + steering->lead_ns, horizon_ns = horizon_of(loop, reach_ns);
    int64_t piece_ns = (loop->planned_ns > reach_ns ? loop->planned_ns : reach_ns) + steering->slice_ns / PLANS_A_SLICE;
    if (piece_ns < horizon_ns) {
        horizon_ns = piece_ns;
        loop->fed = 1;
    }
    loop->planned_ns = horizon_ns;
    for (uint32_t one = 0; one < steering->planners; one++) {
        const struct planner *planner = &loop->planners[one];
        of[one].last_number = steering->last_number;
        planner->plan(planner->core, now_ns, horizon_ns, &of[one]);
        steering->last_number = of[one].last_number;
        revokes += of[one].revokes;
        grants += of[one].grants;
    }
    if (loop->chooser.count && of[0].grants)
        loop->chooser.count(loop->chooser.core, of[0].grants, loop->planners[0].grants(loop->planners[0].core));
    if (revokes + grants)
        gather(loop, of, revokes, grants); /* to be sent from the next turn on */
    for (uint32_t one = 0; one < steering->planners; one++) {
        int64_t next_ns = loop->planners[one].next_event(loop->planners[one].core);
        if (next_ns >= 0 && (event_ns == NEVER || next_ns < event_ns))
            event_ns = next_ns;
    }
    if (event_ns != NEVER)
        loop->due_ns = event_ns - steering->lead_ns > now_ns ? event_ns - steering->lead_ns : now_ns + 1;
}

/* -- frames ------------------------------------------------------------------------------------------------------- */

/* Tells Python of the last batch. Frames of which it has nothing to know are counted, and told with what comes after them. */
static void tell_batch(struct loop *loop, uint32_t box, int64_t now_ns) {
    const struct frames *f = loop->frames;
    const struct counts *counts = &f->counts;
    loop->uncounted += counts->accepted;
    if (counts->yields || counts->opened || counts->backlogs || counts->delayed) {
        struct told_batch batch = {
            TOLD_BATCH, 0, loop->uncounted, counts->yields, counts->opened, counts->entries, counts->backlogs, counts->delayed, now_ns,
        };
        loop->uncounted = 0;
        uint8_t *at = told_put(told_end(&loop->told), &batch, sizeof batch);
        at = told_put(at, f->yields, counts->yields * sizeof *f->yields);
        at = told_put(at, f->opened, counts->opened * sizeof *f->opened);
        at = told_put(at, f->sizes, counts->entries * sizeof *f->sizes);
        at = told_put(at, f->nodes, counts->backlogs * sizeof *f->nodes);
        at = told_put(at, f->offsets, (counts->backlogs + 1) * sizeof *f->offsets);
        at = told_put(at, f->destinations, counts->entries * sizeof *f->destinations);
        at = told_put(at, f->delayed, counts->delayed * sizeof *f->delayed);
        at = told_put(at, f->watched, counts->yields);
        told_close(&loop->told, at, now_ns);
        loop->steering.attend |= counts->backlogs || (counts->yields && !loop->steering.planners);
    }
    if (counts->raw_bytes >= 0 && loop->told.frames > TOLD_FRAMES)
        loop->steering.dropped++;
    else if (counts->raw_bytes >= 0) {
        uint32_t before = loop->told.used;
        struct told_frame frame = {counts->proven ? TOLD_PROVEN : TOLD_FRAME, 0, (uint32_t)counts->raw_bytes, box, now_ns, counts->raw_stamp_ns};
        uint8_t *at = told_put(told_end(&loop->told), &frame, sizeof frame);
        told_close(&loop->told, told_put(at, f->raw, frame.size), now_ns);
        loop->told.frames += loop->told.used - before;
        loop->steering.attend |= box == 0 || loop->steering.prompt;
    }
}

/* Tells Python how many frames were taken of which it has nothing else to know. */
static void tell_count(struct loop *loop) {
    int64_t now_ns = loop->steering.now_ns;
    struct told_batch batch = {.kind = TOLD_BATCH, .accepted = loop->uncounted, .now_ns = now_ns};
    uint32_t first = 0; /* of the offsets, which has one more than there are backlogs */
    if (!loop->uncounted || !told_has_room(&loop->told))
        return;
    loop->uncounted = 0;
    told_close(&loop->told, told_put(told_put(told_end(&loop->told), &batch, sizeof batch), &first, sizeof first), now_ns);
}

/* Tells the cores of the last batch; returns whether there was anything to tell. */
static int feed(struct loop *loop, int64_t now_ns) {
    const struct frames *f = loop->frames;
    const struct counts *counts = &f->counts;
    uint32_t all = loop->steering.planners + (loop->chooser.core != NULL);
    for (uint32_t one = 0; one < all; one++) {
        /* The one that chooses hears of it first. */
        uint32_t at = loop->chooser.core ? one - 1 : one;
        const struct planner *planner = at == UINT32_MAX ? &loop->chooser : &loop->planners[at];
        if (counts->yields)
            planner->yields(planner->core, now_ns, counts->yields, f->yields);
        if (counts->backlogs)
            planner->backlogs(planner->core, now_ns, counts->backlogs, f->nodes, f->offsets, f->destinations, NULL);
    }
    return counts->yields || counts->backlogs;
}

/* Takes frames of a socket until the turn has been long enough; returns whether there was something to plan for. */
static int take_frames(struct loop *loop, uint32_t box, int64_t began_ns) {
    struct frames *f = loop->frames;
    int fed = 0;
    int64_t now_ns = began_ns;
    loop->left[box] = 1;
    while (told_has_room(&loop->told)) {
        frames_take(f, loop->descriptors[box], box, TAKEN_AT_ONCE, now_ns);
        loop->steering.now_ns = now_ns;
        loop->steering.withheld += f->counts.withheld;
        tell_batch(loop, box, now_ns);
        fed |= feed(loop, now_ns);
        if (!f->counts.waiting && !f->counts.full) {
            loop->left[box] = 0;
            break;
        }
        if ((now_ns = clock_ns(CLOCK_MONOTONIC)) - began_ns >= TURN_NS)
            break;
    }
    return fed;
}

static int wants_python(const struct loop *loop, int64_t now_ns) {
    const struct steering *steering = &loop->steering;
    int wants = (int)steering->attend || (steering->review_ns != NEVER && now_ns >= steering->review_ns);
    wants |= loop->told.used && (now_ns - loop->told.since_ns >= LOOK_NS || loop->told.used > TOLD_ROOM / 8);
    if (loop->chooser.core)
        wants |= loop->chooser.dirty(loop->chooser.core) || loop->chooser.unplaced(loop->chooser.core);
    for (uint32_t one = 0; one < steering->planners; one++)
        wants |= loop->planners[one].unplaced(loop->planners[one].core) > 0;
    return wants;
}

static void keep_longest(int64_t *longest_ns, int64_t ns) {
    if (ns > *longest_ns)
        *longest_ns = ns;
}

static void turn(struct loop *loop, int poked) {
    struct steering *steering = &loop->steering;
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    int fed = take_frames(loop, 1, began_ns);
    fed |= take_frames(loop, 0, began_ns);
    if (!loop->left[0] && !loop->left[1])
        steering->read_ns = began_ns;
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    steering->now_ns = now_ns;
    int due = loop->due_ns != NEVER && now_ns >= loop->due_ns;
    if (due)
        keep_longest(&steering->longest_delay_ns, now_ns - loop->due_ns);
    loop->fed |= fed || poked || due;
    if (loop->rows_next < loop->rows_end)
        carry_on(loop, now_ns);
    else if (loop->fed) {
        loop->fed = 0;
        plan(loop, now_ns);
    }
    if (!loop->signalled && wants_python(loop, now_ns)) {
        uint64_t one = 1;
        loop->signalled = 1;
        if (write(loop->tell, &one, sizeof one) < 0)
            loop->signalled = 0;
    }
    keep_longest(&steering->longest_turn_ns, clock_ns(CLOCK_MONOTONIC) - began_ns);
}

static void *serve(void *given) {
    struct loop *loop = given;
    struct frames *f = loop->frames;
    while (!__atomic_load_n(&loop->stop, __ATOMIC_ACQUIRE)) {
        struct pollfd watched[] = {
            {loop->wake, POLLIN, 0}, {loop->descriptors[0], POLLIN, 0}, {loop->descriptors[1], POLLIN, 0},
        };
        int64_t wait_ns = LOOK_NS;
        if (loop->due_ns != NEVER) {
            int64_t left_ns = loop->due_ns - clock_ns(CLOCK_MONOTONIC);
            wait_ns = left_ns < wait_ns ? left_ns : wait_ns;
        }
        if (loop->left[0] || loop->left[1]) /* unless only Python can make room */
            wait_ns = told_has_room(&loop->told) ? 0 : wait_ns < FULL_NS ? wait_ns : FULL_NS;
        if (loop->rows_next < loop->rows_end || loop->fed)
            wait_ns = 0;
        if (wait_ns > 0) {
            struct timespec most = {wait_ns / SECOND_NS, wait_ns % SECOND_NS};
            ppoll(watched, !told_has_room(&loop->told) ? 1 : loop->steering.prompt ? 3 : 2, &most, NULL);
        }
        uint64_t count;
        int poked = read(loop->wake, &count, sizeof count) > 0;
        int64_t woken_ns = clock_ns(CLOCK_MONOTONIC);
        pthread_mutex_lock(&f->lock);
        keep_longest(&loop->steering.longest_wait_ns, clock_ns(CLOCK_MONOTONIC) - woken_ns);
        turn(loop, poked);
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

/* -- for Python --------------------------------------------------------------------------------------------------- */

/* A loop over the two sockets; it tells Python by the event `tell`. NULL: no memory, or no descriptor. */
struct loop *loop_new(struct frames *f, int main_box, int deferred_box, int tell) {
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->frames = f;
    loop->descriptors[0] = main_box;
    loop->descriptors[1] = deferred_box;
    loop->tell = tell;
    loop->due_ns = loop->steering.review_ns = NEVER;
    loop->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake < 0 || !told_make(&loop->told)) {
        if (loop->wake >= 0)
            close(loop->wake);
        told_free(&loop->told);
        free(loop);
        return NULL;
    }
    return loop;
}

/* Begins to serve, at the caller's priority; returns 0, or the error. */
int loop_start(struct loop *loop) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int error = pthread_create(&loop->thread, &attributes, serve, loop);
    pthread_attr_destroy(&attributes);
    loop->started = !error;
    return error;
}

/* Has it plan. */
void loop_poke(struct loop *loop) {
    uint64_t one = 1;
    (void)!write(loop->wake, &one, sizeof one);
}

/* The policy goes: what of its last plan has not been sent is not sent any more. The caller holds the lock. */
void loop_drop_plan(struct loop *loop) { loop->rows_next = loop->rows_end; }

/* Until when to plan, where directives are there at `reach_ns` (foresight.py has the same in Python). */
int64_t loop_horizon(struct loop *loop, int64_t reach_ns) { return horizon_of(loop, reach_ns); }

/* Ends the thread. */
void loop_stop(struct loop *loop) {
    __atomic_store_n(&loop->stop, 1, __ATOMIC_RELEASE);
    loop_poke(loop);
    if (loop->started)
        pthread_join(loop->thread, NULL);
    loop->started = 0;
}

void loop_free(struct loop *loop) {
    loop_stop(loop);
    close(loop->wake);
    told_free(&loop->told);
    free(loop->rows);
    free(loop);
}

void *loop_steering(struct loop *loop) { return &loop->steering; }
void *loop_planners(struct loop *loop) { return loop->planners; }
void *loop_chooser(struct loop *loop) { return &loop->chooser; }

/* What was told since the last call, its size, and before when all frames have been read; valid until the next call. */
const void *loop_told(struct loop *loop, uint32_t *size, int64_t *read_ns) {
    struct told *told = &loop->told;
    pthread_mutex_lock(&loop->frames->lock);
    tell_count(loop);
    const void *found = told->buffers[told->filling];
    *size = told->used;
    *read_ns = loop->steering.read_ns;
    told->filling = !told->filling;
    told->used = told->frames = 0;
    loop->signalled = 0;
    loop->steering.attend = 0;
    pthread_mutex_unlock(&loop->frames->lock);
    return found;
}

#endif
