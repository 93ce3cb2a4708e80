/* A thread on one processor that only sleeps and wakes, before all other programs (SCHED_FIFO). If it wakes late its processor stood: a
 * virtual machine's host had other work to do. */
#ifndef BATON_SWARM_WITNESS_H
#define BATON_SWARM_WITNESS_H
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "agent.h"

#define WITNESS_EVERY (MS / 4)
#define WITNESS_PRIORITY 90

struct witness {
    pthread_t thread;
    atomic_int over;
    struct stops stops;
};

static void *watch(void *argument) {
    struct witness *witness = argument;
    for (int64_t due = clock_ns(CLOCK_MONOTONIC); !witness->over;) {
        due += WITNESS_EVERY;
        struct timespec at = {due / SECOND, due % SECOND};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        int64_t now = clock_ns(CLOCK_MONOTONIC);
        note_stop(&witness->stops, due, now);
        due = later(due, now);
    }
    return NULL;
}

/* Begins to watch a processor; NULL: the system does not allow it. */
struct witness *witness_make(uint32_t processor) {
    struct witness *witness = calloc(1, sizeof *witness);
    struct sched_param priority = {WITNESS_PRIORITY};
    pthread_attr_t how;
    cpu_set_t where;
    CPU_ZERO(&where);
    CPU_SET(processor, &where);
    pthread_attr_init(&how);
    pthread_attr_setinheritsched(&how, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&how, SCHED_FIFO);
    pthread_attr_setschedparam(&how, &priority);
    pthread_attr_setaffinity_np(&how, sizeof where, &where);
    int refused = pthread_create(&witness->thread, &how, watch, witness);
    pthread_attr_destroy(&how);
    if (!refused)
        return witness;
    free(witness);
    return NULL;
}

/* Ends the watch; what was seen. */
void witness_end(struct witness *witness, struct stops *into) {
    witness->over = 1;
    pthread_join(witness->thread, NULL);
    *into = witness->stops;
    free(witness);
}

#endif
