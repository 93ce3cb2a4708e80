/* The lock of the frames' state and of the policy's cores. Who holds it may take it again, and runs at the priority of who waits for
 * it. Who waits for it gets it next, whoever else wants it: a free mutex of that kind goes to who has the higher priority, so a loop
 * that has always something to do would keep it from an ordinary thread for seconds. */
#ifndef BATON_FRAMES_LOCK_H
#define BATON_FRAMES_LOCK_H
#include <pthread.h>
#include <stdint.h>

struct lock {
    pthread_mutex_t next, held; /* next: held by the one that waits for `held` */
    uint64_t owner;             /* the thread that holds it; 0: none */
    uint32_t depth;             /* how often the owner took it */
};

static int lock_make(struct lock *lock) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    int made = !pthread_mutex_init(&lock->next, &attributes) && !pthread_mutex_init(&lock->held, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return made;
}

static void lock_free(struct lock *lock) {
    pthread_mutex_destroy(&lock->next);
    pthread_mutex_destroy(&lock->held);
}

static inline void lock_hold(struct lock *lock) {
    uint64_t self = (uint64_t)pthread_self();
    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) != self) { /* only this thread writes its own name there */
        pthread_mutex_lock(&lock->next);
        pthread_mutex_lock(&lock->held);
        pthread_mutex_unlock(&lock->next);
        __atomic_store_n(&lock->owner, self, __ATOMIC_RELAXED);
    }
    lock->depth++;
}

static inline void lock_release(struct lock *lock) {
    if (--lock->depth)
        return;
    __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock->held);
}

/* Lets who waits for the lock have it, and takes it again. Who took it more than once keeps it: that caller counts on it. */
static inline void lock_lend(struct lock *lock) {
    if (lock->depth > 1)
        return;
    lock_release(lock);
    lock_hold(lock);
}

#endif
