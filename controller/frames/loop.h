/* The loop of slots: a thread that receives, has the policy's cores plan, and sends, without Python
 * (controller/frames/loop.py).
 *
 * It holds the lock of the frames' state from when it has been woken until all is sent, some hundred microseconds at most; who
 * else touches that state or the cores holds it, too. What Python must know, or has to do, it is told in batches (told.h). */
#ifndef BATON_LOOP_H
#define BATON_LOOP_H
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "batches.h"
#include "plans.h"

#define LOOK_NS 5000000     /* so often frames are read that wake nobody, and Python is told of what may wait */
#define FULL_NS 200000      /* so often it looks whether Python has made room */
#define STACK_BYTES (512 << 10)
#define USUAL_ROWS 2048     /* of a plan: room from the beginning */
#define LONG_NS 150000      /* who took frames for longer plans in the next turn, so that who came meanwhile is answered before */

static int wants_python(const struct loop *loop, int64_t now_ns) {
    const struct steering *steering = &loop->steering;
    int wants = (int)steering->attend || (steering->review_ns != NEVER && now_ns >= steering->review_ns);
    wants |= loop->told.used && (now_ns - loop->told.since_ns >= LOOK_NS || loop->told.used > TOLD_ROOM / 8);
    wants |= gathered_any(&loop->gathered) && now_ns - loop->gathered.since_ns >= LOOK_NS;
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

/* Whether a plan is left to the next turn, which follows at once; not twice in a row. */
static int put_off(struct loop *loop, int64_t took_ns) {
    loop->put_off = took_ns > LONG_NS && !loop->put_off;
    return loop->put_off;
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
    else if (loop->fed && !put_off(loop, now_ns - began_ns)) {
        loop->fed = 0;
        if (due) {
            steering->delayed_ns += now_ns - loop->due_ns;
            steering->plans_due++;
        }
        plan(loop, now_ns);
    }
    if (!loop->signalled && wants_python(loop, now_ns)) {
        uint64_t one = 1;
        loop->signalled = 1;
        if (write(loop->tell, &one, sizeof one) < 0)
            loop->signalled = 0;
    }
    int64_t took_ns = clock_ns(CLOCK_MONOTONIC) - began_ns;
    keep_longest(&steering->longest_turn_ns, took_ns);
    steering->busy_ns += took_ns;
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
        lock_hold(&f->lock);
        keep_longest(&loop->steering.longest_wait_ns, clock_ns(CLOCK_MONOTONIC) - woken_ns);
        turn(loop, poked);
        lock_release(&f->lock);
    }
    return NULL;
}

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
    loop->rows_room = USUAL_ROWS;
    loop->rows = malloc(USUAL_ROWS * sizeof *loop->rows);
    if (loop->rows)
        memset(loop->rows, 0, USUAL_ROWS * sizeof *loop->rows); /* so that these pages are there */
    if (loop->wake < 0 || !loop->rows || !told_make(&loop->told)) {
        if (loop->wake >= 0)
            close(loop->wake);
        told_free(&loop->told);
        free(loop->rows);
        free(loop);
        return NULL;
    }
    f->gathers = 1;
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

/* The policy goes: what its last plan takes back is sent, for the policy believes that it was; what that grants is not sent any
 * more. The caller holds the lock. */
void loop_drop_plan(struct loop *loop) {
    if (loop->rows_end > loop->revokes)
        loop->rows_end = loop->revokes;
    while (loop->rows_next < loop->rows_end)
        carry_on(loop, clock_ns(CLOCK_MONOTONIC));
    loop->rows_next = loop->rows_end;
}

/* Until when to plan, where directives are there at `reach_ns` (foresight.py has the same in Python). */
int64_t loop_horizon(struct loop *loop, int64_t reach_ns) { return horizon_of(loop, reach_ns); }
int64_t loop_lead(const struct loop *loop) { return lead_of(loop); }

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
    loop->frames->gathers = 0;
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
    lock_hold(&loop->frames->lock);
    tell_gathered(loop);
    tell_left_out(loop, loop->steering.now_ns);
    const void *found = told->buffers[told->filling];
    *size = told->used;
    *read_ns = loop->steering.read_ns;
    told->filling = !told->filling;
    told->used = told->frames = 0;
    loop->signalled = 0;
    loop->steering.attend = 0;
    lock_release(&loop->frames->lock);
    return found;
}

#endif
