/* What the directed links of a tree carry, hold back and lose: a fluid model in steps of equal length.
 *
 * In each step a flow puts bytes on the first link of its path. A link carries at most its capacity, its queue keeps at most
 * its buffer of the rest, and the rest of that is lost. What a link carries, the next one of the path gets in the same step.
 * All flows of a link fare alike: each is carried, kept and lost in proportion to what it brought and had waiting there.
 *
 * A path (flow by flow, as it is given) names one link a level, or none (-1). Links of a level are served before those of the
 * next, so each link must have one level, and levels must grow along every path: in a tree the ways up from the bottom, then
 * the ways down from the top.
 * While very many flows have bytes somewhere, the steps of a millisecond are made as one, and those of ten while the model is
 * late: what overlaps for less than a step is not seen then.
 * At any time: sent = delivered + lost + waiting, but for rounding. */
#ifndef BATON_SWARM_LINKS_H
#define BATON_SWARM_LINKS_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY_BYTES 1e-3
#define CROWD 1000
#define HURRY_MS 10

struct link_counts {
    double carried, lost, most_waiting, most_in_a_ms, waiting, in_this_ms;
};

struct links {
    uint32_t links, flows, levels, steps_a_ms, step;
    uint32_t gathered;               /* steps that are still to be made */
    uint32_t coarsest;               /* the most that were made as one */
    double *capacity, *buffer;       /* of each link: bytes a step, bytes */
    double *total, *passed, *kept;   /* of each link in this step: bytes, and the shares that go on and that wait */
    struct link_counts *counts;
    uint32_t *path;                  /* [level * flows + flow]; `links` where the flow has no link, which passes all on */
    double *waiting;                 /* the same: bytes in the queue of that link */
    double *moving, *held;           /* of each flow in this step: on the way, and left in queues so far */
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
    m->total = calloc(links + 1, sizeof(double)), m->passed = calloc(links + 1, sizeof(double));
    m->kept = calloc(links + 1, sizeof(double)), m->counts = calloc(links, sizeof *m->counts);
    m->path = calloc((size_t)flows * levels, sizeof(uint32_t)), m->waiting = calloc((size_t)flows * levels, sizeof(double));
    m->moving = calloc(flows, sizeof(double)), m->held = calloc(flows, sizeof(double));
    m->busy = calloc(flows, sizeof(uint32_t)), m->is_busy = calloc(flows, 1);
    m->touched = calloc(links, sizeof(uint32_t));
    memcpy(m->capacity, capacity, links * sizeof(double));
    memcpy(m->buffer, buffer, links * sizeof(double));
    for (uint32_t flow = 0; flow < flows; flow++)
        for (uint32_t level = 0; level < levels; level++) {
            int32_t link = path[(size_t)flow * levels + level];
            m->path[(size_t)level * flows + flow] = link < 0 ? links : (uint32_t)link;
        }
    m->total[links] = m->passed[links] = 1; /* never served, so whole */
    return m;
}

static void links_drop(struct links *m) {
    void *all[] = {m->capacity, m->buffer, m->total, m->passed, m->kept, m->counts, m->path, m->waiting, m->moving, m->held,
                   m->busy, m->is_busy, m->touched, m};
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

/* What a flow brings to the link of its path at this level. */
static inline void links_bring(struct links *m, uint32_t flow, uint32_t level) {
    size_t place = (size_t)level * m->flows + flow;
    uint32_t link = m->path[place];
    double bytes = m->moving[flow] + m->waiting[place];
    if (m->total[link] == 0 && bytes > 0)
        m->touched[m->touched_count++] = link;
    m->total[link] += bytes;
}

/* What the link of its path at this level carries of it, and what waits there; the latter. */
static inline double links_carry(struct links *m, uint32_t flow, uint32_t level) {
    size_t place = (size_t)level * m->flows + flow;
    uint32_t link = m->path[place];
    double bytes = m->moving[flow] + m->waiting[place];
    m->moving[flow] = bytes * m->passed[link];
    return m->waiting[place] = bytes * m->kept[link];
}

static void links_serve(struct links *m, uint32_t link, uint32_t steps) {
    double total = m->total[link], capacity = m->capacity[link] * steps;
    double carried = total < capacity ? total : capacity, kept = total - carried;
    struct link_counts *c = &m->counts[link];
    double lost = kept > m->buffer[link] ? kept - m->buffer[link] : 0;
    kept -= lost;
    m->total[link] = 0, m->passed[link] = carried / total, m->kept[link] = kept / total;
    c->carried += carried, c->lost += lost, c->waiting = kept, c->in_this_ms += carried;
    if (kept > c->most_waiting)
        c->most_waiting = kept;
    m->lost += lost;
}

/* Serves all links to which the level before brought something. */
static void links_serve_all(struct links *m, uint32_t steps) {
    for (uint32_t at = 0; at < m->touched_count; at++)
        links_serve(m, m->touched[at], steps);
    m->touched_count = 0;
}

/* How many steps to make as one now: those up to the end of the millisecond if very many flows have bytes somewhere; up to the
 * end of some milliseconds if the model is to `hurry`. */
static uint32_t links_together(const struct links *m, int hurry) {
    uint32_t together = hurry ? HURRY_MS * m->steps_a_ms : m->busy_count > CROWD ? m->steps_a_ms : 1;
    return together - (m->step + m->gathered) % together;
}

/* Ends so many steps: moves what was put and what waits along the paths. */
static void links_step(struct links *m, uint32_t many) {
    m->gathered += many;
    if (m->busy_count > CROWD && (m->step + m->gathered) % m->steps_a_ms)
        return;
    uint32_t steps = m->gathered, last = m->levels - 1;
    m->gathered = 0;
    for (uint32_t at = 0; at < m->busy_count; at++)
        links_bring(m, m->busy[at], 0);
    for (uint32_t level = 0; level < last; level++) {
        links_serve_all(m, steps);
        for (uint32_t at = 0; at < m->busy_count; at++) {
            m->held[m->busy[at]] += links_carry(m, m->busy[at], level);
            links_bring(m, m->busy[at], level + 1);
        }
    }
    links_serve_all(m, steps);
    uint32_t left = 0;
    for (uint32_t at = 0; at < m->busy_count; at++) {
        uint32_t flow = m->busy[at];
        double waits = m->held[flow] + links_carry(m, flow, last);
        m->delivered += m->moving[flow];
        m->moving[flow] = m->held[flow] = 0;
        if (waits < EMPTY_BYTES)
            m->is_busy[flow] = 0;
        else
            m->busy[left++] = flow;
    }
    m->busy_count = left;
    m->step += steps;
    m->coarsest = steps > m->coarsest ? steps : m->coarsest;
    if (m->step % m->steps_a_ms)
        return;
    uint32_t ms = (steps + m->steps_a_ms - 1) / m->steps_a_ms;
    for (uint32_t link = 0; link < m->links; link++) {
        struct link_counts *c = &m->counts[link];
        if (c->in_this_ms > c->most_in_a_ms * ms)
            c->most_in_a_ms = c->in_this_ms / ms;
        c->in_this_ms = 0;
    }
}

/* The bytes in all queues, and of steps that are still to be made. */
static double links_waiting(const struct links *m) {
    double sum = 0;
    for (uint32_t at = 0; at < m->busy_count; at++) {
        sum += m->moving[m->busy[at]];
        for (uint32_t level = 0; level < m->levels; level++)
            sum += m->waiting[(size_t)level * m->flows + m->busy[at]];
    }
    return sum;
}

#endif
