/* Plans in the loop of slots: it says how far the cores plan ahead, has them plan, and sends a plan's slots a few at a time. */
#ifndef BATON_FRAMES_PLANS_H
#define BATON_FRAMES_PLANS_H
#include "outgoing.h"
#include "steering.h"

#define CHUNK_ROWS 32      /* slots of a plan that are sent before frames are taken again: 300 us, 800 if each wakes a processor */
#define TELLING_NS 15000LL    /* for a slot: CHUNK_ROWS of them, and the frames that come in between */
#define BURST_SLICES 2
#define FORESIGHT_NS 100000000
#define LONGEST_FORESIGHT_NS 40000000
#define FORESIGHT_SLICES 2
#define MANY_SLOTS 10000LL  /* a second; see controller/scheduling/foresight.py */
#define GIVEN_BACK 16
#define PLANS_A_SLICE 8     /* a plan that reaches farther is made in pieces */

/* How far ahead of a start a plan is due. Where thousands of slots begin at once, as each step of `steps` does, the last one's
 * directive leaves long after the first one's. */
static int64_t lead_of(const struct loop *loop) {
    int64_t telling_ns = loop->burst * TELLING_NS - loop->steering.lead_ns / 2, most_ns = loop->steering.slice_ns / 4;
    telling_ns = telling_ns < most_ns ? telling_ns : most_ns;
    return loop->steering.lead_ns + (telling_ns > 0 ? telling_ns : 0);
}

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

/* Sends the next slots of a plan, at most `CHUNK_ROWS`, and tells of them what Python follows: watched ones, and those of
 * members unknown here. */
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
    loop->left_out += grants - watched;
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
    if (!plan.revoked && !plan.granted && !plan.others)
        return;
    memcpy(told_end(&loop->told), &plan, sizeof plan);
    told_close(&loop->told, at, now_ns);
}

/* Tells Python how many slots were granted of which it is told nothing else. */
static void tell_left_out(struct loop *loop, int64_t now_ns) {
    struct told_plan plan = {.kind = TOLD_PLAN, .left_out = loop->left_out, .now_ns = now_ns};
    if (!loop->left_out)
        return;
    loop->left_out = 0;
    told_close(&loop->told, told_put(told_end(&loop->told), &plan, sizeof plan), now_ns);
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
    int64_t reach_ns = now_ns + lead_of(loop), horizon_ns = horizon_of(loop, reach_ns);
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
    if (revokes + grants >= loop->burst || now_ns >= loop->burst_ns + BURST_SLICES * steering->slice_ns) {
        loop->burst = revokes + grants;
        loop->burst_ns = now_ns;
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
        loop->due_ns = event_ns - lead_of(loop) > now_ns ? event_ns - lead_of(loop) : now_ns + 1;
}

#endif
