/* What becomes of slots of bytes: the decisions of agents/permission/gatekeeper.py and agents/permission/slots.py, which say why.
 * tests/unit/agents/reflex/test_slots_both_ways.py gives both the same frames. */
#ifndef BATON_SLOT_KEEPER_H
#define BATON_SLOT_KEEPER_H
#include <time.h>

#include "slot_frames.h"
#include "slot_gates.h"

enum { FIRST_CHECK_NS = 2000000, USED_UP_FOR_NS = 250000000 };

static int64_t clock_now(const struct slots *s) {
    struct timespec now;
    if (s->hooks.clock)
        return s->hooks.clock();
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void remove_waiting(struct slots *s, uint32_t place) { s->waiting[place] = s->waiting[--s->waiting_count]; }

static void forget_number(struct slots *s, uint64_t number) {
    for (uint32_t place = 0; place < s->waiting_count; place++)
        if (s->waiting[place].number == number) {
            remove_waiting(s, place);
            return;
        }
}

/* The place of the waiting slot that starts first, of those that start at once the one of the lowest number. */
static uint32_t first_waiting(const struct slots *s) {
    uint32_t first = 0;
    for (uint32_t place = 1; place < s->waiting_count; place++) {
        const struct slot *slot = &s->waiting[place], *best = &s->waiting[first];
        if (slot->start_ns < best->start_ns || (slot->start_ns == best->start_ns && slot->number < best->number))
            first = place;
    }
    return first;
}

/* Whether packets wait for a permission that they have not. */
static int holds(const struct slots *s) {
    for (uint32_t at = 0; at < s->destination_count; at++)
        if (s->destination[at].waiting_bytes && !s->destination[at].open)
            return 1;
    return 0;
}

static void schedule_check(const struct slots *s, struct destination *d, int64_t backlog, int64_t now_ns) {
    __int128 quiet_ns = (__int128)backlog * 8 * SECOND_NS / s->terms.link_bps;
    if (quiet_ns < s->terms.hysteresis_ns)
        quiet_ns = s->terms.hysteresis_ns;
    if (quiet_ns < d->check_after_ns)
        quiet_ns = d->check_after_ns;
    __int128 half_ns = (__int128)d->bytes * 4 * SECOND_NS / s->terms.link_bps;
    if (now_ns < d->used_up_until_ns && now_ns + quiet_ns > d->end_ns - half_ns)
        d->next_check_ns = NEVER;
    else
        d->next_check_ns = quiet_ns > FAR ? FAR : now_ns + (int64_t)quiet_ns;
}

static void open_slot(struct slots *s, const struct slot *slot) {
    struct destination *d = &s->destination[slot->at];
    struct gate *gate = &s->gate[slot->at];
    struct state state = gate_grant(s, gate, (uint32_t)slot->bytes);
    int64_t opened_ns = clock_now(s);
    if (s->refused_errno)
        return;
    if (d->open && state.backlog)
        d->used_up_until_ns = opened_ns + USED_UP_FOR_NS;
    d->open = 1;
    d->slot = slot->number;
    d->end_ns = slot->end_ns;
    d->bytes = slot->bytes;
    d->passed_before = state.passed;
    d->passed_at_check = -1;
    d->check_after_ns = 0;
    if (opened_ns < d->used_up_until_ns) {
        d->check_after_ns = s->terms.hysteresis_ns / 2;
        if (2 * state.backlog >= slot->bytes) {
            int64_t half_ns = (slot->end_ns - slot->start_ns) / 2;
            d->check_after_ns = half_ns < FIRST_CHECK_NS ? half_ns : FIRST_CHECK_NS;
            d->passed_at_check = state.passed;
        }
    }
    schedule_check(s, d, state.backlog, opened_ns);
    send_ack(s, slot, opened_ns);
    s->opened[s->opened_count++] = (struct opened){opened_ns, slot->start_ns, slot->received_ns};
}

static void remember_use(struct destination *d, int64_t unspent, int64_t now_ns) {
    d->used_up_until_ns = unspent < LONGEST ? now_ns + USED_UP_FOR_NS : 0;
}

static void yield_slot(struct slots *s, uint32_t at, int64_t passed) {
    struct destination *d = &s->destination[at];
    struct gate *gate = &s->gate[at];
    d->open = 0;
    d->next_check_ns = NEVER;
    d->waiting_bytes = 0;
    gate_shut(s, gate);
    gate_arm(gate);
    int64_t unspent = d->bytes - (passed - d->passed_before);
    unspent = unspent > 0 ? unspent : 0;
    remember_use(d, unspent, clock_now(s));
    s->voided_bytes += unspent;
    d->waiting_bytes = gate_state(s, gate).backlog;
    if (!s->refused_errno)
        send_yield(s, gate->node, d->slot, unspent, d->waiting_bytes);
}

static void check_use(struct slots *s, uint32_t at, int64_t now_ns) {
    struct destination *d = &s->destination[at];
    struct state state = gate_state(s, &s->gate[at]);
    if (s->refused_errno)
        return;
    if (state.backlog || state.passed != d->passed_at_check) {
        d->passed_at_check = state.passed;
        d->check_after_ns = d->check_after_ns < FAR / 2 ? 2 * d->check_after_ns : FAR;
        schedule_check(s, d, state.backlog, now_ns);
        return;
    }
    s->yields++;
    yield_slot(s, at, state.passed);
}

static void end_slot(struct slots *s, uint32_t at, int64_t now_ns) {
    struct destination *d = &s->destination[at];
    struct state state = gate_state(s, &s->gate[at]);
    if (s->refused_errno)
        return;
    if (!state.backlog) {
        yield_slot(s, at, state.passed);
        return;
    }
    int64_t unspent = d->bytes - (state.passed - d->passed_before);
    remember_use(d, unspent, now_ns);
    if (unspent >= LONGEST) {
        gate_shut(s, &s->gate[at]);
        s->voided_bytes += unspent;
    }
    d->open = 0;
    d->next_check_ns = NEVER;
    d->waiting_bytes = state.backlog;
}

/* Whether there is room for what another slot may tell. */
static int has_room(const struct slots *s) { return s->opened_count < EVENTS && !s->refused_errno; }

static void advance(struct slots *s, int64_t now_ns) {
    while (s->waiting_count && has_room(s)) {
        uint32_t place = first_waiting(s);
        struct slot slot = s->waiting[place];
        if (slot.start_ns > now_ns)
            break;
        remove_waiting(s, place);
        if (now_ns < slot.end_ns)
            open_slot(s, &slot);
    }
    for (uint32_t at = 0; at < s->destination_count && !s->refused_errno; at++) {
        struct destination *d = &s->destination[at];
        if (!d->open)
            continue;
        if (now_ns >= d->end_ns)
            end_slot(s, at, now_ns);
        else if (now_ns >= d->next_check_ns)
            check_use(s, at, now_ns);
    }
}

/* When `advance` must be called next. */
static int64_t next_due_ns(const struct slots *s) {
    int64_t due_ns = s->waiting_count ? s->waiting[first_waiting(s)].start_ns : NEVER;
    for (uint32_t at = 0; at < s->destination_count; at++) {
        const struct destination *d = &s->destination[at];
        if (d->open && d->end_ns < due_ns)
            due_ns = d->end_ns;
        if (d->open && d->next_check_ns < due_ns)
            due_ns = d->next_check_ns;
    }
    return due_ns;
}

/* Takes the grants of a directive that came at `received_ns`. */
static void obey(struct slots *s, const uint8_t *body, uint32_t length, int64_t received_ns) {
    for (const uint8_t *grant = body; grant < body + length; grant += GRANT_BYTES) {
        uint32_t at = place_of(s, read4(grant));
        struct destination *d = &s->destination[at];
        d->named = 1;
        struct slot slot = {
            read8(grant + 4), (int64_t)local_ns(&s->terms, read8(grant + 12)), (int64_t)local_ns(&s->terms, read8(grant + 20)),
            read4(grant + 28), received_ns, at,
        };
        if (!d->open || d->slot != slot.number) {
            forget_number(s, slot.number);
            if (slot.bytes && slot.start_ns > received_ns)
                s->waiting[s->waiting_count++] = slot;
            else if (slot.bytes && received_ns < slot.end_ns)
                open_slot(s, &slot);
        }
        if (d->reported_ns != NEVER) {
            s->answer_ns[s->answer_count++] = received_ns - d->reported_ns;
            d->reported_ns = NEVER;
        }
        if (s->refused_errno)
            return;
    }
    advance(s, received_ns);
}

#endif
