/* This file begins and ends senders and their leases, and brings a node's senders in line with its backlog. A part of
 * rates.c. */
#pragma once
#include "state.h"

static inline struct slot slot_of(const struct rates *rates, uint32_t at)
{
	const struct sender *sender = &rates->senders[at];
	return (struct slot){
		(int64_t)sender->lease, sender->id, sender->destination, sender->start, sender->end, 0, sender->rate, sender->rate,
	};
}

static void end_lease(struct rates *rates, uint32_t at, bool revoke)
{
	struct sender *sender = &rates->senders[at];
	if (!sender->lease)
		return;
	if (revoke) {
		GROW(rates->revokes, rates->revoke_room, rates->revoke_count + 1);
		rates->revokes[rates->revoke_count++] = slot_of(rates, at);
	}
	sender->lease = 0;
}

static inline void fetch_rate(const struct rates *rates, uint32_t at)
{
	__builtin_prefetch(&rates->senders[at], 1);
	__builtin_prefetch(&rates->senders[at].since, 1);
}

/* Has a lease looked at when half of it is over, or its sender may have ended. */
static void look_later(struct rates *rates, uint32_t at)
{
	struct sender *sender = &rates->senders[at];
	sender->look = (sender->start + sender->end) / 2;
	if (sender->idle >= 0 && sender->idle + rates->lease < sender->look)
		sender->look = sender->idle + rates->lease;
	dues_push(&rates->due, (struct due){sender->look, sender->lease, at});
}

static void grant(struct rates *rates, uint32_t at, int64_t rate, int64_t length)
{
	struct sender *sender = &rates->senders[at];
	int64_t now = rates->now;
	rates->last_number = rates->last_number + 1 > (uint64_t)now ? rates->last_number + 1 : (uint64_t)now;
	sender->lease = rates->last_number;
	sender->start = now;
	sender->end = now + length;
	sender->rate = rate;
	sender->planned = rates->planned;
	look_later(rates, at);
	GROW(rates->grants, rates->grant_room, rates->grant_count + 1);
	rates->grants[rates->grant_count++] = slot_of(rates, at);
}

static void promise(struct rates *rates, uint32_t at, int64_t due, int64_t rate)
{
	struct sender *sender = &rates->senders[at];
	sender->rising = ++rates->rise_number;
	sender->rise_at = due;
	sender->rise_to = rate;
	sender->then_to = 0;
	dues_push(&rates->rises, (struct due){due, sender->rising, at});
}

/* Makes a pair no sender any more, and ends its lease. */
static void forget_sender(struct rates *rates, uint32_t at, bool revoke)
{
	struct sender *senders = rates->senders, *sender = &senders[at];
	struct row *row = &rates->rows[rates->roster.couples[at].node];
	rates->stale = true;
	end_lease(rates, at, revoke);
	if (sender->sends) {
		rates->begun[sender->order] = NONE;
		*(sender->before != NONE ? &senders[sender->before].after : &row->first) = sender->after;
		*(sender->after != NONE ? &senders[sender->after].before : &row->last) = sender->before;
	}
	sender->sends = false;
	sender->rising = 0;
}

static void tidy(struct rates *rates, uint32_t at)
{
	if (!rates->senders[at].sends && !rates->roster.couples[at].waiting)
		forget_couple(&rates->roster, at);
}

static void begin_sender(struct rates *rates, uint32_t at)
{
	const struct couple *pair = &rates->roster.couples[at];
	struct row *row = &rates->rows[pair->node];
	rates->senders[at] = (struct sender){
		.sends = true, .idle = -1, .wants = -1, .before = row->last, .after = NONE, .since = ++rates->begins,
		.id = rates->roster.members[pair->node].id, .destination = pair->destination, .order = rates->begun_count,
	};
	GROW(rates->begun, rates->begun_room, rates->begun_count + 1);
	rates->begun[rates->begun_count++] = at;
	*(row->last != NONE ? &rates->senders[row->last].after : &row->first) = at;
	row->last = at;
	rates->stale = true;
	want_place(&rates->roster, at);
}

static int by_destination(const void *a, const void *b)
{
	const uint64_t *one = a, *other = b;
	return (*one > *other) - (*one < *other);
}

/* Brings the senders in line with a node's backlog. */
static void note(struct rates *rates, uint32_t node)
{
	struct roster *roster = &rates->roster;
	uint32_t count = 0;
	for (uint32_t at = roster->members[node].from; at != NONE; at = roster->couples[at].from_after) {
		const struct couple *pair = &roster->couples[at];
		struct sender *sender = &rates->senders[at];
		if (pair->waiting && pair->regulated) {
			if (sender->sends) {
				sender->idle = -1;
				continue;
			}
			GROW(rates->fresh, rates->fresh_room, count + 1);
			rates->fresh[count++] = (uint64_t)pair->destination << 32 | at;
		} else if (sender->sends && sender->idle < 0) {
			sender->idle = roster->now;
			if (sender->lease && roster->now + rates->lease < sender->look)
				look_later(rates, at);
		}
	}
	if (count > 1)
		qsort(rates->fresh, count, sizeof(*rates->fresh), by_destination);
	for (uint32_t one = 0; one < count; one++)
		begin_sender(rates, (uint32_t)rates->fresh[one]);
}
