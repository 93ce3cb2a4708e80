/* Frames in the loop of slots: it takes them in batches, and tells the cores and Python of each batch. */
#ifndef BATON_FRAMES_BATCHES_H
#define BATON_FRAMES_BATCHES_H
#include "gathered.h"
#include "incoming.h"
#include "steering.h"

#define TURN_NS 150000      /* no batch begins later after the turn's begin */
#define TAKEN_AT_ONCE 32    /* frames that are received by one call: 100 to 200 us */

/* Whether Python has heard lately that something waits at a member for this destination; from now on it has. */
static int knows_of(struct peer *peer, uint32_t destination, uint32_t era) {
    peer_begin(peer, era);
    for (uint32_t one = 0; one < TOLD_OF; one++)
        if (peer->told_of[one] == destination)
            return 1;
    peer->told_of[peer->next_told++ % TOLD_OF] = (uint16_t)destination;
    return 0;
}

/* Whether the last batch names a pair that is new to Python, which says whether a core has to know of it. */
static int names_new_pair(struct frames *f) {
    int found = 0;
    for (uint32_t one = 0; one < f->counts.backlogs; one++)
        for (uint32_t at = f->offsets[one]; at < f->offsets[one + 1]; at++)
            found |= !knows_of(&f->peers[f->nodes[one]], f->destinations[at], f->era);
    return found;
}

static void tell_gathered(struct loop *loop) {
    gathered_tell(&loop->gathered, &loop->told);
    loop->frames->batch++;
}

/* Gathers the last batch for Python, and tells it of a frame that it handles. */
static void tell_batch(struct loop *loop, uint32_t box, int64_t now_ns) {
    struct frames *f = loop->frames;
    const struct counts *counts = &f->counts;
    gathered_add(&loop->gathered, &loop->told, f, now_ns);
    loop->steering.attend |= loop->steering.planners ? names_new_pair(f) : counts->backlogs || counts->yields;
    if (counts->raw_bytes < 0) {
        if (counts->waiting) /* who said something says the other next (`ends_batch`) */
            tell_gathered(loop);
        return;
    }
    if (loop->told.frames > TOLD_FRAMES) {
        if (counts->proven)
            f->peers[read4(f->raw + SENDER_AT)].idle = 0; /* its next one is told */
        loop->steering.dropped++;
        return;
    }
    if (!counts->proven) /* who registers, or leaves, has said the rest before */
        tell_gathered(loop);
    uint32_t before = loop->told.used;
    struct told_frame frame = {
        counts->proven ? TOLD_PROVEN : TOLD_FRAME, 0, (uint32_t)counts->raw_bytes, box, now_ns, counts->raw_stamp_ns,
    };
    uint8_t *at = told_put(told_end(&loop->told), &frame, sizeof frame);
    told_close(&loop->told, told_put(at, f->raw, frame.size), now_ns);
    loop->told.frames += loop->told.used - before;
    loop->steering.attend |= box == 0 || loop->steering.prompt;
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
