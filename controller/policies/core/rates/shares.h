/* This file finds the max-min fair shares of all senders, grants those that fall, and notes those that rise. A part of
 * rates.c. */
#pragma once
#include "leases.h"
#include <math.h>

/* whole * part / of, rounded towards zero; a division of 128 bits takes several times as long. */
static inline int64_t part_of(int64_t whole, int64_t part, int64_t of)
{
	int64_t product;
	if (!__builtin_mul_overflow(whole, part, &product))
		return product / of;
	return (int64_t)((wide)whole * part / of);
}

/* The share of a link or a node, of which nothing is given away yet when it is crossed first. */
static uint32_t share_of(struct rates *rates, struct seen *seen, int64_t capacity, uint32_t *count)
{
	if (seen->round != rates->shared) {
		GROW(rates->shares, rates->share_room, *count + 1);
		rates->shares[*count] = (struct share){.left = part_of(capacity, rates->headroom_ppm, PPM)};
		*seen = (struct seen){rates->shared, (*count)++};
	}
	return seen->share;
}

static void cross(struct rates *rates, struct flow *flow, uint32_t share)
{
	GROW(rates->crossed, rates->crossed_room, flow->first + flow->count + 1);
	rates->crossed[flow->first + flow->count++] = share;
	rates->shares[share].count++;
	rates->shares[share].weight += flow->parts;
}

static uint32_t collect_flows(struct rates *rates, uint32_t *shares)
{
	struct roster *roster = &rates->roster;
	uint32_t count = 0, crossed = 0;
	GROW(rates->links, rates->link_room, roster->link_count);
	GROW(rates->members, rates->member_room, roster->member_count);
	for (uint32_t node = roster->first_heard; node != NONE; node = roster->members[node].after)
		for (uint32_t at = rates->rows[node].first; at != NONE; at = rates->senders[at].after) {
			const struct couple *pair = &roster->couples[at];
			const uint32_t *links = links_of(roster, at);
			if (!pair->placed)
				continue;
			GROW(rates->flows, rates->flow_room, count + 1);
			struct flow *flow = &rates->flows[count++];
			double parts = weight_of(&rates->weights, roster->members[node].id, pair->destination) * (double)WEIGHT_UNIT;
			*flow = (struct flow){.pair = at, .first = crossed, .parts = MOST_PARTS};
			if (parts < (double)MOST_PARTS)
				flow->parts = parts > 1 ? llrint(parts) : 1;
			cross(rates, flow, share_of(rates, &rates->members[node], roster->members[node].rate, shares));
			for (uint32_t one = 0; one < pair->links; one++)
				cross(rates, flow, share_of(rates, &rates->links[links[one]], roster->capacities[links[one]], shares));
			if (rates->senders[at].wants >= 0) {
				GROW(rates->shares, rates->share_room, *shares + 1);
				rates->shares[*shares] = (struct share){.left = rates->senders[at].wants};
				cross(rates, flow, (*shares)++);
			}
			crossed += flow->count;
		}
	return count;
}

/* Max-min fair rates, as in controller/policies/fair_share.py: flows are fixed in the order of `fixed`. Returns how many. */
static uint32_t find_shares(struct rates *rates)
{
	uint32_t all = 0, total = 0, found = 0, count;
	rates->shared++;
	count = collect_flows(rates, &all);
	for (uint32_t one = 0; one < all; one++) {
		rates->shares[one].first = total;
		total += rates->shares[one].count;
		rates->shares[one].count = 0;
	}
	GROW(rates->crossing, rates->crossing_room, total);
	GROW(rates->fixed, rates->fixed_room, count);
	for (uint32_t one = 0; one < count; one++)
		for (uint32_t at = 0; at < rates->flows[one].count; at++) {
			struct share *share = &rates->shares[rates->crossed[rates->flows[one].first + at]];
			rates->crossing[share->first + share->count++] = one;
		}
	for (uint32_t one = 0; one < all; one++)
		levels_push(&rates->levels, (struct level){rates->shares[one].left, rates->shares[one].weight, one});
	while (rates->levels.count && found < count) {
		struct level level = levels_pop(&rates->levels);
		struct share *share = &rates->shares[level.share];
		if (!share->weight)
			continue;
		if ((wide)share->left * level.weight > (wide)level.left * share->weight) {
			levels_push(&rates->levels, (struct level){share->left, share->weight, level.share});
			continue;
		}
		int64_t room = share->left, parts = share->weight;
		for (uint32_t one = 0; one < share->count; one++) {
			struct flow *flow = &rates->flows[rates->crossing[share->first + one]];
			if (flow->rate)
				continue;
			int64_t rate = part_of(room, flow->parts, parts);
			flow->rate = rate > 1 ? rate : 1;
			rates->fixed[found++] = rates->crossing[share->first + one];
			for (uint32_t at = 0; at < flow->count; at++) {
				struct share *other = &rates->shares[rates->crossed[flow->first + at]];
				other->left -= flow->rate;
				other->weight -= flow->parts;
			}
		}
	}
	rates->levels.count = 0;
	return found;
}

/* What was promised keeps its time; what is more waits until the falls of now have been heard. */
static void note_rise(struct sender *sender, int64_t rate, int64_t share, int64_t heard)
{
	if (!sender->rises || sender->rise_to <= rate) {
		sender->rise_at = heard;
		sender->rise_to = share;
		sender->then_to = 0;
	} else if (share <= sender->rise_to) {
		sender->rise_to = share;
		sender->then_to = 0;
	} else {
		if (share > sender->then_to)
			sender->then_at = heard;
		sender->then_to = share;
	}
	sender->rises = true;
}

static int64_t beyond_many(uint32_t count)
{
	return count > MANY_SENDERS ? count - MANY_SENDERS : 0;
}

/* Grants the shares that fall, and notes the shares that rise, with the time at which they may. */
static void share_out(struct rates *rates, int64_t horizon)
{
	uint32_t found = find_shares(rates), rising = 0;
	int64_t now = rates->roster.now;
	for (uint32_t at = rates->first_lease, after; at != NONE; at = after) {
		after = rates->senders[at].lease_after;
		if (!rates->roster.couples[at].placed)
			end_lease(rates, at, true);
	}
	uint32_t falls = 0, times = found / MANY_SENDERS;
	rates->length = (times < 1 ? 1 : times < MOST_TIMES ? times : MOST_TIMES) * rates->lease;
	for (uint32_t one = 0; one < found; one++) {
		const struct flow *flow = &rates->flows[rates->fixed[one]];
		const struct sender *sender = &rates->senders[flow->pair];
		falls += flow->rate < (sender->lease && sender->end > now ? sender->rate : 0);
	}
	if (falls)
		rates->heard = horizon;
	uint32_t before = rates->rise_count;
	GROW(rates->scratch, rates->scratch_room, before);
	if (before)
		memcpy(rates->scratch, rates->rises, before * sizeof(*rates->rises));
	GROW(rates->rises, rates->rise_room, found);
	for (uint32_t one = 0; one < found; one++) {
		const struct flow *flow = &rates->flows[rates->fixed[one]];
		struct sender *sender = &rates->senders[flow->pair];
		int64_t rate = sender->lease && sender->end > now ? sender->rate : 0;
		if (flow->rate <= rate)
			continue;
		note_rise(sender, rate, flow->rate, now > rates->heard ? now : rates->heard);
		sender->shared = rates->shared;
		rates->rises[rising++] = flow->pair;
	}
	for (uint32_t one = 0; one < before; one++)
		if (rates->senders[rates->scratch[one]].shared != rates->shared)
			rates->senders[rates->scratch[one]].rises = false;
	rates->rise_count = rising;
	for (uint32_t one = 0; one < found; one++) {
		const struct flow *flow = &rates->flows[rates->fixed[one]];
		const struct sender *sender = &rates->senders[flow->pair];
		if (flow->rate < (sender->lease && sender->end > now ? sender->rate : 0))
			grant(rates, flow->pair, flow->rate, rates->length);
	}
	rates->rest_until = now + beyond_many(found) * REST_NS + beyond_many(falls + rising) * TOLD_NS;
}
