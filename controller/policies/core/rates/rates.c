/* The rate limit, compiled: what controller/policies/rate_limit.py does, which is the reference and says why.
 *
 * Both give the same plans for the same events. Senders, leases and rises are elements of arrays by pair; times are ns.
 */
#define _GNU_SOURCE
#include "events.h"
#include "shares.h"

/* -- planning ------------------------------------------------------------------------------------------------------------- */

static bool is_due(const struct rates *rates, const struct due *due)
{
	return rates->senders[due->pair].lease == due->number;
}

/* The senders to renew, as entries of `renewed`; forgets those that send no more. */
static uint32_t take_due(struct rates *rates)
{
	int64_t now = rates->roster.now;
	uint32_t count = 0;
	GROW(rates->renewed, rates->renewed_room, RENEWED_AT_ONCE);
	for (int looks = 0; looks < LOOKS_AT_ONCE && count < RENEWED_AT_ONCE; looks++) {
		if (!rates->due.count || rates->due.items[0].at > now)
			break;
		struct due due = dues_pop(&rates->due);
		if (!is_due(rates, &due))
			continue;
		const struct sender *sender = &rates->senders[due.pair];
		int64_t next = now + rates->lease / 2, half = (sender->start + sender->end) / 2;
		if (sender->idle >= 0 && now >= sender->idle + rates->lease) {
			forget_sender(rates, due.pair, now < sender->end);
			tidy(rates, due.pair);
		} else if (now >= half) {
			rates->renewed[count++] = due.pair;
		} else {
			dues_push(&rates->due, (struct due){next < half ? next : half, due.number, due.pair});
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

/* Plans; what came of it is there until the next call to any function. `counts` has the last slot number, before and after. */
void rates_plan(struct rates *rates, int64_t now, int64_t horizon, struct counts *counts)
{
	rates->roster.now = now;
	rates->last_number = counts->last_number;
	rates->lead = horizon - now;
	rates->grant_count = 0;
	rates->planned++;
	uint32_t renewed = take_due(rates), left = 0, risen = 0;
	bool shares = rates->roster.network && rates->stale && !rates->rewiring;
	rates->waits = shares && now < rates->rest_until;
	if (shares && !rates->waits) {
		rates->stale = false;
		share_out(rates, horizon);
	}
	for (uint32_t one = 0; one < rates->rise_count; one++) {
		uint32_t at = rates->rises[one];
		struct sender *sender = &rates->senders[at];
		if (!sender->rises || sender->shared != rates->shared)
			continue;
		if (sender->rise_at > now || risen == RISEN_AT_ONCE) {
			rates->rises[left++] = at;
			continue;
		}
		risen++;
		grant(rates, at, sender->rise_to, rates->length);
		sender->rises = sender->then_to > 0;
		if (sender->rises) {
			sender->rise_at = sender->then_at;
			sender->rise_to = sender->then_to;
			sender->then_to = 0;
			rates->rises[left++] = at;
		}
	}
	rates->rise_count = left;
	for (uint32_t one = 0; one < renewed; one++)
		renew(rates, rates->renewed[one]);
	*counts = (struct counts){rates->last_number, rates->grant_count, rates->revoke_count};
	rates->revoke_count = 0;
}

int64_t rates_next_event(struct rates *rates)
{
	for (int looks = 0; looks < LOOKS_AT_ONCE && rates->due.count && !is_due(rates, &rates->due.items[0]); looks++)
		dues_pop(&rates->due);
	int64_t first = rates->due.count ? rates->due.items[0].at : INT64_MAX;
	for (uint32_t one = 0; one < rates->rise_count; one++) {
		const struct sender *sender = &rates->senders[rates->rises[one]];
		if (sender->rises && sender->shared == rates->shared && sender->rise_at < first)
			first = sender->rise_at;
	}
	if (rates->waits && rates->rest_until < first)
		first = rates->rest_until;
	return first == INT64_MAX ? -1 : first + rates->lead;
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

struct rates *rates_new(int64_t lease, int64_t headroom_ppm)
{
	struct rates *rates = calloc(1, sizeof(*rates));
	if (!rates)
		abort();
	roster_begin(&rates->roster);
	rates->lease = rates->length = lease;
	rates->headroom_ppm = headroom_ppm;
	rates->first_lease = rates->last_lease = NONE;
	rates->stale = true;
	PROVIDE(rates->senders, rates->sender_room, MANY);
	PROVIDE(rates->flows, rates->flow_room, MANY);
	PROVIDE(rates->shares, rates->share_room, MANY);
	PROVIDE(rates->crossed, rates->crossed_room, 8 * MANY);
	PROVIDE(rates->crossing, rates->crossing_room, 8 * MANY);
	PROVIDE(rates->fixed, rates->fixed_room, MANY);
	PROVIDE(rates->rises, rates->rise_room, MANY);
	PROVIDE(rates->scratch, rates->scratch_room, MANY);
	PROVIDE(rates->links, rates->link_room, MANY);
	PROVIDE(rates->members, rates->member_room, MANY);
	PROVIDE(rates->levels.items, rates->levels.room, MANY);
	PROVIDE(rates->due.items, rates->due.room, MANY);
	PROVIDE(rates->grants, rates->grant_room, MANY);
	return rates;
}

void rates_free(struct rates *rates)
{
	roster_end(&rates->roster);
	weights_free(&rates->weights);
	void *arrays[] = {
		rates->senders, rates->rows, rates->due.items, rates->rises, rates->renewed, rates->fresh, rates->scratch, rates->flows,
		rates->shares, rates->links, rates->members, rates->crossed, rates->crossing, rates->fixed, rates->levels.items,
		rates->grants, rates->revokes,
	};
	for (size_t at = 0; at < sizeof(arrays) / sizeof(*arrays); at++)
		array_free(arrays[at]);
	free(rates);
}
