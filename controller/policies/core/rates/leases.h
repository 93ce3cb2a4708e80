/* This file begins and ends senders and their leases, and brings a node's senders in line with its backlog. A part of
 * rates.c. */
#pragma once
#include "state.h"

static struct slot slot_of(const struct rates *rates, uint32_t at)
{
	const struct sender *sender = &rates->senders[at];
	const struct couple *pair = &rates->roster.couples[at];
	return (struct slot){
		(int64_t)sender->lease, rates->roster.members[pair->node].id, pair->destination, sender->start, sender->end, 0,
		sender->rate, sender->rate,
	};
}

static void end_lease(struct rates *rates, uint32_t at, bool revoke)
{
	struct sender *senders = rates->senders, *sender = &senders[at];
	if (!sender->lease)
		return;
	if (revoke) {
		GROW(rates->revokes, rates->revoke_room, rates->revoke_count + 1);
		rates->revokes[rates->revoke_count++] = slot_of(rates, at);
	}
	*(sender->lease_before != NONE ? &senders[sender->lease_before].lease_after : &rates->first_lease) = sender->lease_after;
	*(sender->lease_after != NONE ? &senders[sender->lease_after].lease_before : &rates->last_lease) = sender->lease_before;
	sender->lease = 0;
}

static void grant(struct rates *rates, uint32_t at, int64_t rate, int64_t length)
{
	struct sender *sender = &rates->senders[at];
	int64_t now = rates->roster.now;
	if (!sender->lease) {
		sender->lease_before = rates->last_lease;
		sender->lease_after = NONE;
		*(rates->last_lease != NONE ? &rates->senders[rates->last_lease].lease_after : &rates->first_lease) = at;
		rates->last_lease = at;
	}
	rates->last_number = rates->last_number + 1 > (uint64_t)now ? rates->last_number + 1 : (uint64_t)now;
	sender->lease = rates->last_number;
	sender->start = now;
	sender->end = now + length;
	sender->rate = rate;
	sender->planned = rates->planned;
	dues_push(&rates->due, (struct due){now + rates->lease / 2, sender->lease, at});
	GROW(rates->grants, rates->grant_room, rates->grant_count + 1);
	rates->grants[rates->grant_count++] = slot_of(rates, at);
}

/* Makes a pair no sender any more, and ends its lease. */
static void forget_sender(struct rates *rates, uint32_t at, bool revoke)
{
	struct sender *senders = rates->senders, *sender = &senders[at];
	struct row *row = &rates->rows[rates->roster.couples[at].node];
	rates->stale = true;
	end_lease(rates, at, revoke);
	if (sender->sends) {
		*(sender->before != NONE ? &senders[sender->before].after : &row->first) = sender->after;
		*(sender->after != NONE ? &senders[sender->after].before : &row->last) = sender->before;
	}
	sender->sends = sender->rises = false;
}

static void tidy(struct rates *rates, uint32_t at)
{
	if (!rates->senders[at].sends && !rates->roster.couples[at].waiting)
		forget_couple(&rates->roster, at);
}

static void begin_sender(struct rates *rates, uint32_t at)
{
	uint32_t node = rates->roster.couples[at].node;
	struct row *row = &rates->rows[node];
	rates->senders[at] = (struct sender){
		.sends = true, .idle = -1, .wants = -1, .before = row->last, .after = NONE, .since = ++rates->begun,
	};
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
		}
	}
	if (count > 1)
		qsort(rates->fresh, count, sizeof(*rates->fresh), by_destination);
	for (uint32_t one = 0; one < count; one++)
		begin_sender(rates, (uint32_t)rates->fresh[one]);
}
