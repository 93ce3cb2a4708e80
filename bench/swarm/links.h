/* What the directed links of a tree carry, hold back and lose: a fluid model in steps of equal length.
 *
 * In each step a flow puts bytes on the first link of its path. A link carries at most its capacity, its queue keeps at most
 * its buffer of the rest, and the rest of that is lost. What a link carries, the next one of the path gets in the same step.
 * All flows of a link fare alike: each is carried, kept and lost in proportion to what it brought and had waiting there.
 *
 * A path names one link a level, or none (-1). Links of a level are served before those of the next, so each link must have one
 * level, and levels must grow along every path: in a tree the ways up from the bottom, then the ways down from the top.
 * While very many flows have bytes somewhere, the steps of a millisecond are made as one.
 * At any time: sent = delivered + lost + waiting, but for rounding. */
#ifndef BATON_SWARM_LINKS_H
#define BATON_SWARM_LINKS_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY_BYTES 1e-3
#define CROWD 1000

struct link_counts {
    double carried, lost, most_waiting, most_in_a_ms, waiting, in_this_ms;
};

struct links {
    uint32_t links, flows, levels, steps_a_ms, step;
    uint32_t gathered;               /* steps that are still to be made */
    double *capacity, *buffer;       /* of each link: bytes a step, bytes */
    double *total, *passed, *kept;   /* of each link in this step: bytes, and the shares that go on and that wait */
    struct link_counts *counts;
    int32_t *path;                   /* [flow * levels + level] */
    double *waiting;                 /* the same: bytes in the queue of that link */
    double *moving;                  /* of each flow: on the way in this step */
    uint32_t *busy, busy_count;      /* flows that have bytes somewhere */
    uint8_t *is_busy;
    uint32_t *touched, touched_count;
    double sent, delivered, lost;
};

static struct links *links_make(uint32_t links, uint32_t flows, uint32_t levels, uint32_t steps_a_ms, const double *capacity,
                                const double *buffer, const int32_t *path) {
    struct links *m = calloc(1, sizeof *m);
    m->links = links, m->flows = flows, m->levels = levels, m->steps_a_ms = steps_a_ms;
    m->capacity = calloc(links, sizeof(double)), m->buffer = calloc(links, sizeof(double));
    m->total = calloc(links, sizeof(double)), m->passed = calloc(links, sizeof(double));
    m->kept = calloc(links, sizeof(double)), m->counts = calloc(links, sizeof *m->counts);
    m->path = calloc((size_t)flows * levels, sizeof(int32_t)), m->waiting = calloc((size_t)flows * levels, sizeof(double));
    m->moving = calloc(flows, sizeof(double)), m->busy = calloc(flows, sizeof(uint32_t)), m->is_busy = calloc(flows, 1);
    m->touched = calloc(links, sizeof(uint32_t));
    memcpy(m->capacity, capacity, links * sizeof(double));
    memcpy(m->buffer, buffer, links * sizeof(double));
    memcpy(m->path, path, (size_t)flows * levels * sizeof(int32_t));
    return m;
}

static void links_drop(struct links *m) {
    void *all[] = {m->capacity, m->buffer, m->total, m->passed, m->kept, m->counts, m->path, m->waiting, m->moving, m->busy,
                   m->is_busy, m->touched, m};
    for (unsigned at = 0; at < sizeof all / sizeof *all; at++)
        free(all[at]);
}

/* A flow sends so many bytes in this step. */
static void links_put(struct links *m, uint32_t flow, double bytes) {
    if (bytes <= 0)
        return;
    m->moving[flow] += bytes;
    m->sent += bytes;
    if (!m->is_busy[flow])
        m->is_busy[flow] = 1, m->busy[m->busy_count++] = flow;
}

static void links_serve(struct links *m, uint32_t link, uint32_t steps) {
    double total = m->total[link], capacity = m->capacity[link] * steps;
    double carried = total < capacity ? total : capacity, kept = total - carried;
    struct link_counts *c = &m->counts[link];
    double lost = kept > m->buffer[link] ? kept - m->buffer[link] : 0;
    kept -= lost;
    m->passed[link] = total > 0 ? carried / total : 0;
    m->kept[link] = total > 0 ? kept / total : 0;
    c->carried += carried, c->lost += lost, c->waiting = kept, c->in_this_ms += carried;
    if (kept > c->most_waiting)
        c->most_waiting = kept;
    m->lost += lost;
}

/* How many steps to make as one now: those up to the end of the millisecond, if very many flows have bytes somewhere or the
 * model is to `hurry`. */
static uint32_t links_together(const struct links *m, int hurry) {
    return hurry || m->busy_count > CROWD ? m->steps_a_ms - (m->step + m->gathered) % m->steps_a_ms : 1;
}

/* Ends so many steps: moves what was put and what waits along the paths. */
static void links_step(struct links *m, uint32_t many) {
    m->gathered += many;
    if (m->busy_count > CROWD && (m->step + m->gathered) % m->steps_a_ms)
        return;
    uint32_t steps = m->gathered;
    m->gathered = 0;
    for (uint32_t level = 0; level < m->levels; level++) {
        m->touched_count = 0;
        for (uint32_t at = 0; at < m->busy_count; at++) {
            uint32_t flow = m->busy[at];
            size_t place = (size_t)flow * m->levels + level;
            int32_t link = m->path[place];
            if (link < 0)
                continue;
            double bytes = m->moving[flow] + m->waiting[place];
            if (bytes <= 0)
                continue;
            if (m->total[link] == 0)
                m->touched[m->touched_count++] = (uint32_t)link;
            m->total[link] += bytes;
        }
        for (uint32_t at = 0; at < m->touched_count; at++)
            links_serve(m, m->touched[at], steps);
        for (uint32_t at = 0; at < m->busy_count; at++) {
            uint32_t flow = m->busy[at];
            size_t place = (size_t)flow * m->levels + level;
            int32_t link = m->path[place];
            if (link < 0)
                continue;
            double bytes = m->moving[flow] + m->waiting[place];
            m->moving[flow] = bytes * m->passed[link];
            m->waiting[place] = bytes * m->kept[link];
        }
        for (uint32_t at = 0; at < m->touched_count; at++)
            m->total[m->touched[at]] = 0;
    }
    uint32_t left = 0;
    for (uint32_t at = 0; at < m->busy_count; at++) {
        uint32_t flow = m->busy[at];
        double waits = 0;
        m->delivered += m->moving[flow];
        m->moving[flow] = 0;
        for (uint32_t level = 0; level < m->levels; level++)
            waits += m->waiting[(size_t)flow * m->levels + level];
        if (waits < EMPTY_BYTES)
            m->is_busy[flow] = 0;
        else
            m->busy[left++] = flow;
    }
    m->busy_count = left;
    m->step += steps;
    if (m->step % m->steps_a_ms)
        return;
    for (uint32_t link = 0; link < m->links; link++) {
        struct link_counts *c = &m->counts[link];
        if (c->in_this_ms > c->most_in_a_ms)
            c->most_in_a_ms = c->in_this_ms;
        c->in_this_ms = 0;
    }
}

/* The bytes in all queues, and of steps that are still to be made. */
static double links_waiting(const struct links *m) {
    double sum = 0;
    for (uint32_t at = 0; at < m->busy_count; at++) {
        sum += m->moving[m->busy[at]];
        for (uint32_t level = 0; level < m->levels; level++)
            sum += m->waiting[(size_t)m->busy[at] * m->levels + level];
    }
    return sum;
}

#endif
