/* Frames in the loop of slots: it takes them in batches, and tells the cores and Python of each batch. */
#ifndef BATON_FRAMES_BATCHES_H
#define BATON_FRAMES_BATCHES_H
#include "incoming.h"
#include "steering.h"

#define TURN_NS 150000      /* no batch begins later after the turn's begin */
#define TAKEN_AT_ONCE 32    /* frames that are received by one call: 100 to 200 us */

/* Tells Python of the last batch. Frames of which it has nothing to know are counted, and told with what comes after them. */
static void tell_batch(struct loop *loop, uint32_t box, int64_t now_ns) {
    const struct frames *f = loop->frames;
    const struct counts *counts = &f->counts;
    loop->uncounted += counts->accepted;
    if (counts->yields || counts->opened || counts->backlogs || counts->delayed) {
        struct told_batch batch = {
            TOLD_BATCH, 0, loop->uncounted, counts->yields, counts->opened, counts->entries, counts->backlogs, counts->delayed,
            now_ns,
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
        struct told_frame frame = {
            counts->proven ? TOLD_PROVEN : TOLD_FRAME, 0, (uint32_t)counts->raw_bytes, box, now_ns, counts->raw_stamp_ns,
        };
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

#endif
