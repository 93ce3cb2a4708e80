/* The rate limit, compiled: what controller/policies/rate_limit.py does, which is the reference and says why.
 *
 * Both give the same plans for the same events. Senders, leases and rises are elements of arrays by pair; times are ns.
 */
#include "roster.h"
#include "slots.h"
#include "weights.h"
#include <math.h>

typedef __int128 wide;

#define PPM 1000000
enum { PRESSED = 2, PATIENCE = 3, LEAST_DEMAND_PART = 100, LONGEST = 8, RENEWED_AT_ONCE = 64 };
static const double USED = 0.97, MARGIN = 1.06;
static const int64_t MOST_PARTS = (int64_t)1 << 40, WEIGHT_UNIT = 1000000;

struct sender {
	bool sends, rises;
	uint32_t unused, pressed;              /* reports in a row: a part of the rate was left; it had a backlog, PRESSED at most */
	uint32_t before, after;                /* the senders of its node, in the order in which they began */
	uint32_t lease_before, lease_after;    /* all leases, in the order in which they began */
	int64_t idle, wants, most_sent;        /* -1: it waits or sends; all that it can get */
	int64_t start, end, rate;              /* of its lease */
	uint64_t lease;                        /* its number; 0: it has none */
	int64_t rise_at, rise_to;
	uint64_t since, shared, planned;       /* when it began; the last share-out and plan that said something of it */
};

struct row { /* a node's senders */
	uint32_t first, last;
};

struct share { /* of a link, a node or a demand, while shares are found */
	int64_t left, weight;
	uint32_t first, count;
};

struct level {
	int64_t left, weight;
	uint32_t share;
};
static inline bool level_before(const struct level *a, const struct level *b)
{
	wide one = (wide)a->left * b->weight, other = (wide)b->left * a->weight;
	return one != other ? one < other : a->share < b->share;
}
#define LEVEL_BEFORE(a, b) level_before(&(a), &(b))
HEAP(levels, struct level, LEVEL_BEFORE)

struct due {
	int64_t at;
	uint64_t number;
	uint32_t pair;
};
#define DUE_BEFORE(a, b) ((a).at != (b).at ? (a).at < (b).at : (a).number < (b).number)
HEAP(dues, struct due, DUE_BEFORE)

struct seen { /* the share of a link or node, in a share-out */
	uint64_t round;
	uint32_t share;
};

struct flow {
	uint32_t pair, first, count; /* its shares are crossed[first] and on */
	int64_t parts, rate;         /* rate 0: not found yet */
};

struct rates {
	struct roster roster;
	int64_t lease, headroom_ppm, lead, heard;
	struct weights weights;
	struct sender *senders;
	struct row *rows;
	uint32_t sender_room, row_room, first_lease, last_lease;
	struct dues due;
	bool stale;
	uint64_t last_number, begun, shared, planned;
	uint32_t *rises, rise_count, rise_room, *renewed, renewed_room, *scratch, scratch_room, fresh_room;
	uint64_t *fresh; /* pairs that begin to send, by destination */
	/* shares */
	struct flow *flows;
	struct share *shares;
	struct seen *links, *members;
	uint32_t *crossed, *crossing, *fixed, flow_room, share_room, link_room, member_room, crossed_room, crossing_room, fixed_room;
	struct levels levels;
	/* what is planned */
	struct slot *grants, *revokes;
	uint32_t grant_count, grant_room, revoke_count, revoke_room;
};

/* -- senders and leases --------------------------------------------------------------------------------------------------- */

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

/* -- events --------------------------------------------------------------------------------------------------------------- */

static uint32_t heard_node(struct rates *rates, uint32_t id)
{
	uint32_t at = member_at(&rates->roster, id), before = rates->row_room;
	GROW(rates->rows, rates->row_room, at + 1);
	memset(rates->rows + before, 0xff, (rates->row_room - before) * sizeof(*rates->rows));
	hear_of(&rates->roster, at);
	return at;
}

static uint32_t waiting_pair(struct rates *rates, uint32_t node, uint32_t destination)
{
	uint32_t at = couple_at(&rates->roster, node, destination);
	GROW(rates->senders, rates->sender_room, rates->roster.couple_room);
	if (!rates->roster.couples[at].waiting && !rates->senders[at].sends)
		rates->senders[at] = (struct sender){.idle = -1};
	rates->roster.couples[at].waiting = true;
	return at;
}

static void stop_waiting(struct rates *rates, uint32_t node, uint64_t mark)
{
	struct roster *roster = &rates->roster;
	for (uint32_t at = roster->members[node].from, after; at != NONE; at = after) {
		struct couple *pair = &roster->couples[at];
		after = pair->from_after;
		if (pair->mark == mark)
			continue;
		pair->waiting = false;
		tidy(rates, at);
	}
}

/* Backlogs of some nodes, in full: nodes[i] waits for destinations[offsets[i]] and on. Deadlines are ignored. */
void rates_backlogs(struct rates *rates, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations, const int64_t *deadlines)
{
	(void)deadlines;
	struct roster *roster = &rates->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t node = heard_node(rates, nodes[one]);
		uint64_t mark = ++roster->marks;
		for (uint32_t at = offsets[one]; at < offsets[one + 1]; at++) {
			uint32_t pair = waiting_pair(rates, node, destinations[at]); /* which may move all pairs */
			roster->couples[pair].mark = mark;
		}
		stop_waiting(rates, node, mark);
		note(rates, node);
	}
}

void rates_yields(struct rates *rates, int64_t now, uint32_t count, const struct returned *all)
{
	struct roster *roster = &rates->roster;
	roster->now = now;
	for (uint32_t one = 0; one < count; one++) {
		const struct returned *returned = &all[one];
		uint32_t node = heard_node(rates, (uint32_t)returned->node), destination = (uint32_t)returned->destination;
		uint32_t at = couple_find(roster, roster->members[node].id, destination);
		if (returned->backlog_bytes > 0)
			at = waiting_pair(rates, node, destination);
		else if (at != NONE)
			roster->couples[at].waiting = false;
		if (at != NONE && rates->senders[at].lease && rates->senders[at].lease == (uint64_t)returned->slot)
			forget_sender(rates, at, false);
		if (at != NONE)
			tidy(rates, at);
		note(rates, node);
	}
}

static void want(struct rates *rates, uint32_t node, struct sender *sender, int64_t wants)
{
	int64_t rate = rates->roster.members[node].rate;
	if (rate < 0)
		return; /* it has no place any more */
	wants = wants > rate / LEAST_DEMAND_PART ? wants : rate / LEAST_DEMAND_PART;
	if (sender->wants < 0 || llabs(wants - sender->wants) > sender->wants / 10) {
		sender->wants = wants;
		rates->stale = true;
	}
}

/* The rates at which a node's flows sent to some destinations; those of all others are 0. */
void rates_sent(struct rates *rates, int64_t now, uint32_t id, uint32_t count, const uint32_t *destinations,
		const int64_t *sent)
{
	struct roster *roster = &rates->roster;
	uint32_t node = map_get(&roster->member_of, id);
	roster->now = now;
	if (node == NONE || node >= rates->row_room)
		return;
	uint64_t mark = ++roster->marks;
	GROW(rates->scratch, rates->scratch_room, roster->couple_count);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = couple_find(roster, id, destinations[one]);
		if (at == NONE)
			continue;
		roster->couples[at].mark = mark;
		rates->scratch[at] = one;
	}
	for (uint32_t at = rates->rows[node].first; at != NONE; at = rates->senders[at].after) {
		const struct couple *pair = &roster->couples[at];
		struct sender *sender = &rates->senders[at];
		int64_t rate = pair->mark == mark ? sent[rates->scratch[at]] : 0;
		if (rate && sender->idle >= 0)
			sender->idle = now;
		if (!sender->lease || sender->end <= now)
			continue;
		bool used = (double)rate >= USED * (double)sender->rate;
		sender->pressed = pair->waiting ? sender->pressed + (sender->pressed < PRESSED) : 0;
		if (used || pair->waiting) {
			sender->unused = 0;
			if (sender->wants >= 0 && (used || sender->pressed >= PRESSED)) {
				sender->wants = -1;
				rates->stale = true;
			}
			continue;
		}
		sender->most_sent = sender->unused && sender->most_sent > rate ? sender->most_sent : rate;
		if (++sender->unused >= PATIENCE) {
			want(rates, node, sender, (int64_t)(MARGIN * (double)sender->most_sent));
			sender->unused = 0;
		}
	}
}

/* Takes the regulated pairs in full; the destinations of a node are sorted. */
void rates_regulate(struct rates *rates, int64_t now, uint32_t count, const uint32_t *nodes, const uint32_t *offsets,
		    const uint32_t *destinations)
{
	struct roster *roster = &rates->roster;
	roster->now = now;
	roster_regulate(roster, count, nodes, offsets, destinations);
	for (uint32_t node = roster->first_heard; node != NONE; node = roster->members[node].after)
		for (uint32_t at = rates->rows[node].first, after; at != NONE; at = after) {
			after = rates->senders[at].after;
			if (roster->couples[at].regulated)
				continue;
			forget_sender(rates, at, true);
			tidy(rates, at);
		}
	for (uint32_t node = roster->first_heard; node != NONE; node = roster->members[node].after)
		note(rates, node);
}

struct leaving { /* a sender, by its place in the order of all */
	uint64_t heard, since;
	uint32_t pair;
};

static int by_order(const void *a, const void *b)
{
	const struct leaving *one = a, *other = b;
	if (one->heard != other->heard)
		return one->heard < other->heard ? -1 : 1;
	return (one->since > other->since) - (one->since < other->since);
}

void rates_left(struct rates *rates, int64_t now, uint32_t id)
{
	struct roster *roster = &rates->roster;
	uint32_t node = map_get(&roster->member_of, id), count = 0, room = 0;
	roster->now = now;
	if (node == NONE)
		return;
	struct leaving *leaving = NULL;
	for (int way = 0; way < 2; way++)
		for (uint32_t at = way ? roster->members[node].to : roster->members[node].from; at != NONE;
		     at = way ? roster->couples[at].to_after : roster->couples[at].from_after) {
			const struct couple *pair = &roster->couples[at];
			GROW(leaving, room, count + 1);
			leaving[count++] = (struct leaving){roster->members[pair->node].heard, rates->senders[at].since, at};
		}
	if (count)
		qsort(leaving, count, sizeof(*leaving), by_order);
	for (uint32_t one = 0; one < count; one++) {
		uint32_t at = leaving[one].pair;
		if (rates->senders[at].sends)
			forget_sender(rates, at, true);
		roster->couples[at].waiting = false;
	}
	for (uint32_t one = 0; one < count; one++)
		if (roster->couples[leaving[one].pair].known)
			forget_couple(roster, leaving[one].pair);
	free(leaving);
	unhear(roster, node);
}

/* The weight of a pair; NONE stands for any node. */
void rates_weight(struct rates *rates, uint32_t node, uint32_t destination, double weight)
{
	weigh(&rates->weights, node, destination, weight);
	rates->stale = true;
}

void rates_rewire(struct rates *rates, int64_t now)
{
	rates->roster.now = now;
	roster_rewire(&rates->roster);
	rates->roster.link_count = 0;
	rates->stale = true;
}

/* Other capacities of links, where rates and paths are as before. */
void rates_recharge(struct rates *rates, int64_t now, uint32_t count, const uint32_t *links, const int64_t *capacities)
{
	rates->roster.now = now;
	for (uint32_t one = 0; one < count; one++)
		rates->roster.capacities[links[one]] = capacities[one];
	rates->stale = true;
}

/* A plan may be made before the pairs that it would share out to have their places. */
EXPORT_PLACES(rates, core->stale = true)

/* -- shares --------------------------------------------------------------------------------------------------------------- */

/* The share of a link or a node, of which nothing is given away yet when it is crossed first. */
static uint32_t share_of(struct rates *rates, struct seen *seen, int64_t capacity, uint32_t *count)
{
	if (seen->round != rates->shared) {
		GROW(rates->shares, rates->share_room, *count + 1);
		rates->shares[*count] = (struct share){.left = (int64_t)((wide)capacity * rates->headroom_ppm / PPM)};
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
	while (rates->levels.count) {
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
			wide rate = (wide)room * flow->parts / parts;
			flow->rate = rate > 1 ? (int64_t)rate : 1;
			rates->fixed[found++] = rates->crossing[share->first + one];
			for (uint32_t at = 0; at < flow->count; at++) {
				struct share *other = &rates->shares[rates->crossed[flow->first + at]];
				other->left -= flow->rate;
				other->weight -= flow->parts;
			}
		}
	}
	return found;
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
	bool falls = false;
	for (uint32_t one = 0; one < found; one++) {
		const struct flow *flow = &rates->flows[rates->fixed[one]];
		const struct sender *sender = &rates->senders[flow->pair];
		falls |= flow->rate < (sender->lease && sender->end > now ? sender->rate : 0);
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
		int64_t due = sender->rises ? sender->rise_at : 0, promised = sender->rises ? sender->rise_to : 0;
		sender->rise_at = flow->rate <= promised ? due : now > rates->heard ? now : rates->heard;
		sender->rise_to = flow->rate;
		sender->rises = true;
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
			grant(rates, flow->pair, flow->rate, rates->lease);
	}
}

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
	while (rates->due.count && rates->due.items[0].at <= now && count < RENEWED_AT_ONCE) {
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
	int64_t twice = 2 * (sender->end - sender->start), longest = LONGEST * rates->lease;
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
	uint32_t renewed = take_due(rates), left = 0;
	if (rates->roster.network && rates->stale) {
		rates->stale = false;
		share_out(rates, horizon);
	}
	for (uint32_t one = 0; one < rates->rise_count; one++) {
		uint32_t at = rates->rises[one];
		struct sender *sender = &rates->senders[at];
		if (!sender->rises || sender->shared != rates->shared)
			continue;
		if (sender->rise_at > now) {
			rates->rises[left++] = at;
			continue;
		}
		sender->rises = false;
		grant(rates, at, sender->rise_to, rates->lease);
	}
	rates->rise_count = left;
	for (uint32_t one = 0; one < renewed; one++)
		renew(rates, rates->renewed[one]);
	*counts = (struct counts){rates->last_number, rates->grant_count, rates->revoke_count};
	rates->revoke_count = 0;
}

int64_t rates_next_event(struct rates *rates)
{
	while (rates->due.count && !is_due(rates, &rates->due.items[0]))
		dues_pop(&rates->due);
	int64_t first = rates->due.count ? rates->due.items[0].at : INT64_MAX;
	for (uint32_t one = 0; one < rates->rise_count; one++) {
		const struct sender *sender = &rates->senders[rates->rises[one]];
		if (sender->rises && sender->shared == rates->shared && sender->rise_at < first)
			first = sender->rise_at;
	}
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
	rates->lease = lease;
	rates->headroom_ppm = headroom_ppm;
	rates->first_lease = rates->last_lease = NONE;
	rates->stale = true;
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
		free(arrays[at]);
	free(rates);
}
