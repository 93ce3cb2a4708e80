/* The rate limit, compiled: what controller/policies/rates/policy.py does, which is the reference and says why.
 *
 * Both give the same plans for the same events. Senders, leases and rises are elements of arrays by pair; times are ns.
 */
#define _GNU_SOURCE
#include "events.h"

/* -- planning ------------------------------------------------------------------------------------------------------------- */

static inline bool is_due(const struct rates *rates, const struct due *due)
{
	const struct sender *sender = &rates->senders[due->pair];
	return sender->lease == due->number && sender->look == due->at;
}

static inline bool is_rise(const struct rates *rates, const struct due *due)
{
	return rates->senders[due->pair].rising == due->number;
}

/* The senders to renew, as entries of `renewed`; forgets those that send no more. */
static uint32_t take_due(struct rates *rates)
{
	int64_t now = rates->now;
	uint32_t count = 0;
	GROW(rates->renewed, rates->renewed_room, RENEWED_AT_ONCE);
	for (int looks = 0; looks < LOOKS_AT_ONCE && count < RENEWED_AT_ONCE; looks++) {
		if (!rates->due.count || rates->due.items[0].at > now)
			break;
		struct due due = dues_pop(&rates->due);
		if (!is_due(rates, &due))
			continue;
		const struct sender *sender = &rates->senders[due.pair];
		if (sender->idle >= 0 && now >= sender->idle + rates->lease) {
			forget_sender(rates, due.pair, now < sender->end);
			tidy(rates, due.pair);
		} else if (now >= (sender->start + sender->end) / 2) {
			rates->renewed[count++] = due.pair;
		} else {
			look_later(rates, due.pair);
		}
	}
	return count;
}

/* Each renewal of a pair that sends is for twice as long, up to LONGEST times the first. */
static void renew(struct rates *rates, uint32_t at)
{
	const struct sender *sender = &rates->senders[at];
	int64_t twice = 2 * (sender->end - sender->start), longest = LONGEST * rates->length;
	if (sender->lease && sender->planned != rates->planned)
		grant(rates, at, sender->rate, sender->idle >= 0 ? rates->lease : twice < longest ? twice : longest);
}

/* Grants the rates that may rise by now. */
static void rise(struct rates *rates)
{
	for (int tried = 0; tried < RISEN_AT_ONCE && rates->rises.count && rates->rises.items[0].at <= rates->now; tried++) {
		struct due due = dues_pop(&rates->rises);
		if (!is_rise(rates, &due))
			continue;
		struct sender *sender = &rates->senders[due.pair];
		bool at_once = sender->then_to && sender->then_at <= rates->now;
		grant(rates, due.pair, at_once ? sender->then_to : sender->rise_to, rates->length);
		sender->rising = 0;
		if (sender->then_to && !at_once)
			promise(rates, due.pair, sender->then_at, sender->then_to);
	}
}

/* Plans; what came of it is there until the next call to any function. `counts` has the last slot number, before and after. */
void rates_plan(struct rates *rates, int64_t now, int64_t horizon, struct counts *counts)
{
	rates->roster.now = rates->now = now;
	rates->horizon = horizon;
	rates->last_number = counts->last_number;
	rates->grant_count = 0;
	rates->planned++;
	uint32_t renewed = take_due(rates);
	bool may = rates->roster.network && !rates->rewiring;
	if (may && rates->stale && rates->share_out.stage == NOTHING_SHARED && now >= rates->rest_until) {
		rates->stale = false;
		begin_collecting(rates);
	}
	go_on(rates);
	rates->waits = may && rates->stale && rates->share_out.stage == NOTHING_SHARED;
	rise(rates);
	for (uint32_t one = 0; one < renewed; one++)
		renew(rates, rates->renewed[one]);
	*counts = (struct counts){rates->last_number, rates->grant_count, rates->revoke_count};
	rates->revoke_count = 0;
}

int64_t rates_next_event(struct rates *rates)
{
	int64_t first = INT64_MAX;
	for (int looks = 0; looks < LOOKS_AT_ONCE && rates->due.count && !is_due(rates, &rates->due.items[0]); looks++)
		dues_pop(&rates->due);
	for (int looks = 0; looks < LOOKS_AT_ONCE && rates->rises.count && !is_rise(rates, &rates->rises.items[0]); looks++)
		dues_pop(&rates->rises);
	if (rates->due.count)
		first = rates->due.items[0].at;
	if (rates->rises.count && rates->rises.items[0].at < first)
		first = rates->rises.items[0].at;
	if (rates->waits && rates->rest_until < first)
		first = rates->rest_until;
	if (rates->share_out.stage != NOTHING_SHARED || first <= rates->now)
		return rates->now;
	return first == INT64_MAX ? -1 : first + rates->horizon - rates->now;
}

const struct slot *rates_grants(const struct rates *rates)
{
	return rates->grants;
}

const struct slot *rates_revokes(const struct rates *rates)
{
	return rates->revokes;
}

/* -- from the beginning to the end ---------------------------------------------------------------------------------------- */

struct rates *rates_new(int64_t lease, int64_t headroom_ppm, int64_t steps_at_once)
{
	struct rates *rates = calloc(1, sizeof(*rates));
	if (!rates)
		abort();
	roster_begin(&rates->roster);
	rates->lease = rates->length = lease;
	rates->headroom_ppm = headroom_ppm;
	rates->steps_at_once = steps_at_once;
	rates->stale = true;
	PROVIDE(rates->senders, rates->sender_room, MANY);
	PROVIDE(rates->begun, rates->begun_room, MANY);
	PROVIDE(rates->due.items, rates->due.room, MANY);
	PROVIDE(rates->rises.items, rates->rises.room, MANY);
	PROVIDE(rates->grants, rates->grant_room, MANY);
	struct share_out *out = &rates->share_out;
	PROVIDE(out->flows, out->flow_room, MANY);
	PROVIDE(out->shares, out->share_room, MANY);
	PROVIDE(out->crossings, out->crossing_room, 8 * MANY);
	PROVIDE(out->fixed, out->fixed_room, MANY);
	PROVIDE(out->rising, out->rising_room, MANY);
	PROVIDE(out->links, out->link_room, MANY);
	PROVIDE(out->members, out->member_room, MANY);
	PROVIDE(out->levels.items, out->levels.room, MANY);
	return rates;
}

void rates_free(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	roster_end(&rates->roster);
	weights_free(&rates->weights);
	void *arrays[] = {
		rates->senders, rates->rows, rates->begun, rates->due.items, rates->rises.items, rates->renewed, rates->fresh,
		rates->scratch, out->flows, out->shares, out->links, out->members, out->crossings, out->fixed, out->rising,
		out->levels.items, rates->grants, rates->revokes,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		array_free(arrays[at]);
	free(rates);
}
