/* This file shares links out to all senders, step by step: it collects them, finds their max-min fair shares, grants the shares
 * that fall, and notes those that rise. A part of rates.c. */
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

/* -- collecting ----------------------------------------------------------------------------------------------------------- */

static uint32_t new_share(struct share_out *out, int64_t left)
{
	GROW(out->shares, out->share_room, out->share_count + 1);
	out->shares[out->share_count] = (struct share){.left = left, .first = NONE};
	return out->share_count++;
}

/* The share of a link or a node, of which nothing is given away yet when it is crossed first. */
static inline uint32_t share_of(struct rates *rates, struct seen *seen, int64_t capacity)
{
	if (seen->round != rates->share_out.round) {
		uint32_t share = new_share(&rates->share_out, part_of(capacity, rates->headroom_ppm, PPM));
		*seen = (struct seen){rates->share_out.round, share};
	}
	return seen->share;
}

static inline void cross(struct share_out *out, uint32_t number, uint32_t share)
{
	struct flow *flow = &out->flows[number];
	uint32_t at = (number << out->flow_shift) + flow->count++;
	struct share *its = &out->shares[share];
	out->crossings[at] = (struct crossing){share, NONE};
	*(its->first != NONE ? &out->crossings[its->last].next : &its->first) = at;
	its->last = at;
	its->weight += flow->parts;
}

static inline uint32_t shift_of(const struct rates *rates)
{
	uint32_t shift = 0;
	while (1u << shift < rates->roster.links_most + 2) /* the node and the demand */
		shift++;
	return shift;
}

static inline uint32_t moved(uint32_t at, uint32_t shift, uint32_t wider)
{
	return at == NONE ? NONE : at >> shift << wider | (at & ((1u << shift) - 1));
}

/* Makes room for longer paths, where a pair got its place since the share-out began. */
SELDOM void widen(struct share_out *out, uint32_t wider)
{
	uint32_t shift = out->flow_shift;
	GROW(out->crossings, out->crossing_room, out->flow_count << wider);
	for (uint32_t number = out->flow_count; number--;)
		for (uint32_t one = out->flows[number].count; one--;) {
			struct crossing crossing = out->crossings[(number << shift) + one];
			crossing.next = moved(crossing.next, shift, wider);
			out->crossings[(number << wider) + one] = crossing;
		}
	for (uint32_t at = 0; at < out->share_count; at++) {
		out->shares[at].first = moved(out->shares[at].first, shift, wider);
		out->shares[at].last = moved(out->shares[at].last, shift, wider);
	}
	out->flow_shift = wider;
}

static int64_t parts_of(const struct rates *rates, const struct sender *sender)
{
	double parts = weight_of(&rates->weights, sender->id, sender->destination) * (double)WEIGHT_UNIT;
	if (parts >= (double)MOST_PARTS)
		return MOST_PARTS;
	return parts > 1 ? llrint(parts) : 1;
}

static void collect_flow(struct rates *rates, uint32_t at)
{
	struct roster *roster = &rates->roster;
	struct share_out *out = &rates->share_out;
	const struct couple *pair = &roster->couples[at];
	const struct sender *sender = &rates->senders[at];
	const uint32_t *links = links_of(roster, at);
	if (pair->links + 2 > 1u << out->flow_shift)
		widen(out, shift_of(rates));
	uint32_t number = out->flow_count++;
	GROW(out->flows, out->flow_room, out->flow_count);
	GROW(out->crossings, out->crossing_room, out->flow_count << out->flow_shift);
	out->flows[number] = (struct flow){.since = sender->since, .parts = parts_of(rates, sender), .pair = at};
	GROW(out->members, out->member_room, pair->node + 1);
	cross(out, number, share_of(rates, &out->members[pair->node], roster->members[pair->node].rate));
	for (uint32_t one = 0; one < pair->links; one++) {
		GROW(out->links, out->link_room, links[one] + 1);
		cross(out, number, share_of(rates, &out->links[links[one]], roster->capacities[links[one]]));
	}
	if (sender->wants >= 0)
		cross(out, number, new_share(out, sender->wants));
}

static void begin_collecting(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	out->stage = COLLECTING;
	out->round++;
	out->at = out->kept = out->flow_count = out->share_count = out->found = out->falls = out->rising_count = 0;
	out->end = rates->begun_count;
	out->crossing = NONE;
	out->levels.count = 0;
	out->flow_shift = shift_of(rates);
}

#define AHEAD 6 /* so many senders ahead what the next ones need is fetched */

static inline void fetch_sender(const struct rates *rates, uint32_t place)
{
	uint32_t at = place < rates->begun_count ? rates->begun[place] : NONE;
	if (at == NONE)
		return;
	__builtin_prefetch(&rates->senders[at].since);
	__builtin_prefetch(&rates->senders[at]);
	__builtin_prefetch(&rates->roster.couples[at]);
	__builtin_prefetch(links_of(&rates->roster, at));
}

/* Collects the next sender that is still there; moves those that are to the front. Returns whether there was one. */
static bool collect(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	while (out->at < out->end) {
		uint32_t at = rates->begun[out->at];
		fetch_sender(rates, out->at + AHEAD);
		rates->begun[out->at++] = NONE;
		if (at == NONE)
			continue;
		rates->senders[at].order = out->kept;
		rates->begun[out->kept++] = at;
		if (rates->roster.couples[at].placed) {
			collect_flow(rates, at);
		} else {
			end_lease(rates, at, true);
			rates->senders[at].rising = 0;
		}
		return true;
	}
	return false;
}

/* Moves those that began meanwhile behind the others. */
static void close_ranks(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	uint32_t kept = out->kept;
	for (; out->at < rates->begun_count; out->at++) {
		uint32_t at = rates->begun[out->at];
		if (at == NONE)
			continue;
		rates->senders[at].order = kept;
		rates->begun[kept++] = at;
	}
	rates->begun_count = kept;
}

/* -- max-min fair rates, as in controller/policies/rates/fair_share.py: flows are fixed in the order of `fixed` ------------------ */

/* Looks at the link that has least left for each; flows of one that is full are fixed by the next steps. */
static void take_level(struct share_out *out)
{
	struct level level = levels_pop(&out->levels);
	const struct share *share = &out->shares[level.share];
	if (!share->weight)
		return;
	if ((wide)share->left * level.weight > (wide)level.left * share->weight) {
		levels_push(&out->levels, (struct level){share->left, share->weight, level.share});
		return;
	}
	out->room = share->left;
	out->weight = share->weight;
	out->parts = 0;
	out->crossing = share->first;
}

/* Fixes the next flow of a full link, unless it is fixed already. */
static inline void fix_flow(struct share_out *out)
{
	uint32_t number = out->crossing >> out->flow_shift;
	struct flow *flow = &out->flows[number];
	const struct crossing *crossings = &out->crossings[number << out->flow_shift];
	out->crossing = out->crossings[out->crossing].next;
	if (out->crossing != NONE) {
		__builtin_prefetch(&out->flows[out->crossing >> out->flow_shift], 1);
		__builtin_prefetch(&out->crossings[out->crossing]);
	}
	if (flow->rate)
		return;
	if (flow->parts != out->parts) {
		int64_t rate = part_of(out->room, flow->parts, out->weight);
		out->parts = flow->parts;
		out->rate = rate > 1 ? rate : 1;
	}
	flow->rate = out->rate;
	out->fixed[out->found++] = number;
	for (uint32_t at = 0; at < flow->count; at++) {
		struct share *share = &out->shares[crossings[at].share];
		share->left -= flow->rate;
		share->weight -= flow->parts;
	}
}

/* -- what becomes of shares ----------------------------------------------------------------------------------------------- */

/* Whether a sender's rate, or what was promised to it, is its share, at least after what is more was taken off the promise. */
static bool is_promised(struct sender *sender, int64_t rate, int64_t share)
{
	if (share <= rate) {
		sender->rising = 0;
	} else if (!sender->rising || sender->rise_to <= rate) {
		return false;
	} else if (share <= sender->rise_to) {
		sender->rise_to = share;
		sender->then_to = 0;
	} else if (share <= sender->then_to) {
		sender->then_to = share;
	} else {
		return false;
	}
	return true;
}

/* The sender of a flow; NULL: it has ended. */
static inline struct sender *sender_of(const struct rates *rates, const struct flow *flow)
{
	struct sender *sender = &rates->senders[flow->pair];
	return sender->sends && sender->since == flow->since ? sender : NULL;
}

static inline int64_t rate_of(const struct rates *rates, const struct sender *sender)
{
	return sender->lease && sender->end > rates->now ? sender->rate : 0;
}

/* Has the next rate fall, or notes that it rises; returns as how many steps that counts. */
static int fall(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	if (out->at + AHEAD < out->end)
		__builtin_prefetch(&out->flows[out->fixed[out->at + AHEAD]]);
	if (out->at + AHEAD / 2 < out->end)
		fetch_rate(rates, out->flows[out->fixed[out->at + AHEAD / 2]].pair);
	uint32_t number = out->fixed[out->at++];
	const struct flow *flow = &out->flows[number];
	struct sender *sender = sender_of(rates, flow);
	if (!sender)
		return 1;
	if (flow->rate < rate_of(rates, sender)) {
		out->falls++;
		sender->rising = 0;
		grant(rates, flow->pair, flow->rate, rates->length);
		return FALL_STEPS;
	}
	if (!is_promised(sender, rate_of(rates, sender), flow->rate))
		out->rising[out->rising_count++] = number;
	return 1;
}

/* Notes a rise that is more than what was promised: it waits until the last falls have been heard. */
static void note_rise(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	const struct flow *flow = &out->flows[out->rising[out->at++]];
	struct sender *sender = sender_of(rates, flow);
	int64_t heard = rates->now > rates->heard ? rates->now : rates->heard;
	if (!sender || is_promised(sender, rate_of(rates, sender), flow->rate))
		return;
	if (!sender->rising || sender->rise_to <= rate_of(rates, sender)) {
		promise(rates, flow->pair, heard, flow->rate);
	} else {
		sender->then_at = heard;
		sender->then_to = flow->rate;
	}
}

static int64_t beyond_many(uint32_t count)
{
	return count > MANY_SENDERS ? count - MANY_SENDERS : 0;
}

/* -- the stages ----------------------------------------------------------------------------------------------------------- */

static void begin_stage(struct share_out *out, enum stage stage, uint32_t end)
{
	out->stage = stage;
	out->at = 0;
	out->end = end;
}

static void begin_falls(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	uint32_t times = out->found / MANY_SENDERS;
	rates->length = (times < 1 ? 1 : times < MOST_TIMES ? times : MOST_TIMES) * rates->lease;
	GROW(out->rising, out->rising_room, out->found);
	begin_stage(out, FALLING, out->found);
}

static void end_share_out(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	rates->rest_until = rates->now + beyond_many(out->found) * REST_NS + beyond_many(out->falls + out->rising_count) * TOLD_NS;
	out->stage = NOTHING_SHARED;
}

/* Makes the next step, perhaps the first one of another stage; returns as how many it counts, 0: there was none left. */
static inline int step(struct rates *rates)
{
	struct share_out *out = &rates->share_out;
	for (;;)
		switch (out->stage) {
		case COLLECTING:
			if (collect(rates))
				return 1;
			close_ranks(rates);
			GROW(out->fixed, out->fixed_room, out->flow_count);
			begin_stage(out, ORDERING, out->share_count);
			break;
		case ORDERING:
			if (out->at < out->end) {
				const struct share *share = &out->shares[out->at];
				levels_push(&out->levels, (struct level){share->left, share->weight, out->at++});
				return 1;
			}
			out->stage = FILLING;
			break;
		case FILLING:
			if (out->crossing != NONE) {
				fix_flow(out);
				return 1;
			}
			if (out->levels.count && out->found < out->flow_count) {
				take_level(out);
				return 1;
			}
			begin_falls(rates);
			break;
		case FALLING:
			if (out->at < out->end)
				return fall(rates);
			if (out->falls)
				rates->heard = rates->horizon;
			begin_stage(out, RISING, out->rising_count);
			break;
		case RISING:
			if (out->at < out->end) {
				note_rise(rates);
				return 1;
			}
			end_share_out(rates);
			break;
		case NOTHING_SHARED:
			return 0;
		}
}

/* Makes some steps of the share-out that was begun. */
static void go_on(struct rates *rates)
{
	for (int64_t steps = rates->steps_at_once; steps > 0 && rates->share_out.stage != NOTHING_SHARED;)
		steps -= step(rates);
}
