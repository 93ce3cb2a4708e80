/* What the steps policy knows: flows, the queue of those that wait, and what is granted in each step that is planned. The words
 * are those of controller/policies/steps/. */
#pragma once
#include "roster.h"
#include "slots.h"
#include "weights.h"

#define PPM 1000000
#define BYTE ((wide)8 * 1000000000 * PPM)
typedef unsigned __int128 wide;

enum { AHEAD = 8, ROUNDS = 6, SPARE = 10, TRIES = 16, LEAST_PART = 8, INSIDE = 6, SOON = 12 };

/* All that a step asks of a flow is in one line of the cache; its links, too, unless there are more than INSIDE. */
struct flow {
	int64_t need;
	double credit;
	uint32_t next; /* that is parked behind it */
	uint32_t node, id, destination; /* id: of the node */
	uint16_t count;			/* of links */
	bool queued, awake, exchanged, loose, slow; /* slow: its node sends faster than its path carries */
	uint32_t links[INSIDE];
} __attribute__((aligned(LINE)));

struct place { /* in the queue; `source` is the link that stands for the sender */
	uint32_t flow, source;
};

struct park {
	int64_t awake, room; /* room: what the link carries; 1 for the first one of a path */
	uint32_t first, last;
};

struct held { /* a node's slot in a step; number 0: none */
	int64_t number, start, bytes, rate, reserved;
	uint32_t flow;
};

struct step {
	int64_t number; /* -1: over, or never planned */
	int64_t *left;	/* by link: what is free */
	struct held *held; /* by node */
	uint32_t left_room, held_room;
};

struct flows {
	uint32_t *items, count, room;
};

struct places {
	struct place *items;
	uint32_t count, room;
};

struct spot { /* where a node is: the links from and to its switch */
	uint32_t switched, up, down;
	int64_t rate;
};

struct waits { /* of a flow: its neighbours among those that wait at its node, and for its destination */
	uint32_t out_before, out_after, in_before, in_after;
};

struct waiting { /* of a node: the first flow that waits there, and for it */
	uint32_t out, in;
};

struct credit { /* of a whole step, for the rates that were asked for last */
	int64_t need, sends, length;
	uint64_t packets, rest;
	bool rate;
};

struct steps {
	struct roster roster; /* first, for EXPORT_PLACES */
	int64_t step_ns, headroom_ppm, burst_bytes, packet_bytes;
	struct flow *flows;
	int64_t *sends; /* by flow: what its packets arrive with behind its node's first link */
	uint32_t sends_room;
	uint64_t *wanted; /* a bit a flow */
	uint32_t flow_room, wanted_room;
	struct weights weights;
	double least_weight;
	struct waits *waits;	 /* by flow */
	struct waiting *waiting; /* by node */
	uint32_t waits_room, waiting_room;
	struct spot *spots; /* by node; switched NONE: not known */
	uint32_t spot_room, *routes, route_count, route_room, *path, path_room;
	struct map route_of; /* by both switches: where in `routes` are the number of links, and the links */
	/* by link */
	int64_t *room; /* as in parks, to begin a step with */
	struct park *parks;
	uint32_t room_room, park_room;
	uint64_t *carries; /* by node */
	uint32_t carry_room;
	int64_t longest_delay;
	/* the queue */
	struct places queue, served;
	struct flows crowded, loose, fresh; /* crowded: links where flows are parked; fresh: flows that may be wanted now */
	uint32_t *chosen, *owners;	    /* by link, while a step is matched: the flow that takes it first, and last, of its path */
	uint32_t chosen_room, owner_room;
	struct step steps[AHEAD];
	struct credit credit;
	int64_t next, lead; /* the first step that is not planned; how far ahead the last plan was asked for */
	uint64_t last_number;
	struct slot *grants, *revokes;
	uint32_t grant_count, grant_room, revoke_count, revoke_room;
};

static inline void add(struct flows *flows, uint32_t flow)
{
	GROW(flows->items, flows->room, flows->count + 1);
	flows->items[flows->count++] = flow;
}

static inline bool is_wanted(const struct steps *core, uint32_t at)
{
	return core->wanted[at >> 6] >> (at & 63) & 1;
}

static void update_wanted(struct steps *core, uint32_t at)
{
	const struct couple *pair = &core->roster.couples[at];
	uint64_t bit = (uint64_t)1 << (at & 63);
	bool wanted = pair->known && pair->waiting && pair->regulated && core->flows[at].need > 0;
	core->wanted[at >> 6] = (core->wanted[at >> 6] & ~bit) | (wanted ? bit : 0);
}

/* Counts a flow among those that wait, or no longer. */
static void count_waiting(struct steps *core, uint32_t at, bool waiting)
{
	struct couple *pair = &core->roster.couples[at];
	if (pair->waiting == waiting)
		return;
	pair->waiting = waiting;
	struct waits *waits = core->waits, *own = &waits[at];
	struct waiting *here = &core->waiting[pair->node];
	struct waiting *there = &core->waiting[map_get(&core->roster.member_of, pair->destination)];
	if (waiting) {
		*own = (struct waits){NONE, here->out, NONE, there->in};
		if (own->out_after != NONE)
			waits[own->out_after].out_before = at;
		if (own->in_after != NONE)
			waits[own->in_after].in_before = at;
		here->out = there->in = at;
		return;
	}
	*(own->out_before != NONE ? &waits[own->out_before].out_after : &here->out) = own->out_after;
	*(own->in_before != NONE ? &waits[own->in_before].in_after : &there->in) = own->in_after;
	if (own->out_after != NONE)
		waits[own->out_after].out_before = own->out_before;
	if (own->in_after != NONE)
		waits[own->in_after].in_before = own->in_before;
}

static bool place_by_spots(struct steps *core, uint32_t at);

static uint32_t flow_at(struct steps *core, uint32_t node, uint32_t destination)
{
	uint32_t at = couple_find(&core->roster, core->roster.members[node].id, destination);
	if (at != NONE)
		return at;
	at = couple_at(&core->roster, node, destination);
	GROW(core->flows, core->flow_room, at + 1);
	GROW(core->wanted, core->wanted_room, (at >> 6) + 1);
	GROW(core->sends, core->sends_room, at + 1);
	GROW(core->waits, core->waits_room, at + 1);
	uint32_t before = core->waiting_room;
	GROW(core->waiting, core->waiting_room, core->roster.member_count);
	if (core->waiting_room > before)
		memset(core->waiting + before, 0xff, (core->waiting_room - before) * sizeof(*core->waiting));
	core->flows[at] = (struct flow){
		.next = NONE, .node = node, .id = core->roster.members[node].id, .destination = destination,
	};
	update_wanted(core, at);
	if (!place_by_spots(core, at))
		want_place(&core->roster, at);
	return at;
}

static inline const uint32_t *path_of(const struct steps *core, uint32_t at)
{
	const struct flow *flow = &core->flows[at];
	return flow->count <= INSIDE ? flow->links : links_of(&core->roster, at);
}

/* -- room ----------------------------------------------------------------------------------------------------------------- */

static inline bool fits(const struct steps *core, const struct step *step, uint32_t at)
{
	const uint32_t *links = path_of(core, at);
	uint32_t count = core->flows[at].count;
	int64_t need = core->flows[at].need;
	if (!step->left[links[0]] || step->left[links[count - 1]] < need)
		return count == 1 && step->left[links[0]];
	for (uint32_t one = 1; one + 1 < count; one++)
		if (step->left[links[one]] < need)
			return false;
	return true;
}

static inline void take(const struct steps *core, struct step *step, uint32_t at, int64_t sign)
{
	const uint32_t *links = path_of(core, at);
	uint32_t count = core->flows[at].count;
	int64_t need = sign * core->flows[at].need;
	step->left[links[0]] -= sign;
	for (uint32_t one = 1; one < count; one++)
		step->left[links[one]] -= need;
}

static inline int64_t start_of(const struct steps *core, const struct step *step, uint32_t at)
{
	int64_t start = step->number * core->step_ns;
	if (core->roster.now + core->longest_delay <= start)
		return start;
	int64_t delay = core->roster.members[core->flows[at].node].delay;
	int64_t soonest = core->roster.now + (delay > 0 ? delay : 0);
	return soonest > start ? soonest : start;
}

static inline bool may(const struct steps *core, const struct step *step, uint32_t at)
{
	return is_wanted(core, at) && fits(core, step, at) &&
	       (step->number + 1) * core->step_ns - start_of(core, step, at) >= core->step_ns / LEAST_PART;
}

/* -- the queue ------------------------------------------------------------------------------------------------------------ */

static inline bool crowded(const struct steps *core, uint32_t link, int64_t need)
{
	return core->parks[link].awake >= ROUNDS * core->parks[link].room + SPARE * need;
}

static inline void count_awake(struct steps *core, uint32_t at, int64_t sign)
{
	const uint32_t *links = path_of(core, at);
	uint32_t count = core->flows[at].count;
	core->parks[links[0]].awake += sign;
	for (uint32_t one = 1; one < count; one++)
		core->parks[links[one]].awake += sign * core->flows[at].need;
}

static inline void awake(struct steps *core, uint32_t at)
{
	core->flows[at].awake = true;
	GROW(core->queue.items, core->queue.room, core->queue.count + 1);
	core->queue.items[core->queue.count++] = (struct place){at, path_of(core, at)[0]};
	count_awake(core, at, 1);
}

static inline void leave(struct steps *core, uint32_t at)
{
	core->flows[at].queued = core->flows[at].awake = false;
	count_awake(core, at, -1);
}

/* The link at which a flow is parked, with so many awake there; NONE: it may be awake. `own`: whether it is counted there. */
static inline uint32_t crowded_link(const struct steps *core, uint32_t at, bool own)
{
	const struct flow *flow = &core->flows[at];
	const uint32_t *links = path_of(core, at);
	for (uint32_t one = 0; one < flow->count; one++) {
		const struct park *park = &core->parks[links[one]];
		int64_t need = one ? flow->need : 1;
		if (park->first != NONE || park->awake - (own ? need : 0) >= ROUNDS * park->room + SPARE * need)
			return links[one];
	}
	return NONE;
}

static inline void park_at(struct steps *core, uint32_t at, uint32_t link)
{
	struct park *park = &core->parks[link];
	if (park->first == NONE)
		add(&core->crowded, link);
	*(park->first == NONE ? &park->first : &core->flows[park->last].next) = at;
	park->last = at;
	core->flows[at].next = NONE;
}

static inline void renew(struct steps *core, uint32_t at)
{
	struct flow *flow = &core->flows[at];
	double weight = core->weights.of.count ? weight_of(&core->weights, flow->id, flow->destination) : 1;
	flow->credit = (flow->credit < 1 ? flow->credit : 1) + weight / core->least_weight;
}

static inline void enter(struct steps *core, uint32_t at)
{
	core->flows[at].queued = true;
	renew(core, at);
	uint32_t link = crowded_link(core, at, false);
	if (link == NONE)
		awake(core, at);
	else
		park_at(core, at, link);
}

/* Leaves the queue and enters it again. */
static inline void again(struct steps *core, struct place place)
{
	renew(core, place.flow);
	uint32_t link = crowded_link(core, place.flow, true);
	if (link == NONE) {
		core->queue.items[core->queue.count++] = place; /* where it was taken from there is room */
		return;
	}
	leave(core, place.flow);
	core->flows[place.flow].queued = true;
	park_at(core, place.flow, link);
}

static void wake(struct steps *core)
{
	uint32_t kept = 0;
	for (uint32_t one = 0; one < core->crowded.count; one++) {
		uint32_t link = core->crowded.items[one];
		struct park *park = &core->parks[link];
		while (park->first != NONE) {
			uint32_t at = park->first;
			if (!is_wanted(core, at)) {
				core->flows[at].queued = false;
			} else {
				bool source = path_of(core, at)[0] == link;
				if (crowded(core, link, source ? 1 : core->flows[at].need))
					break;
				awake(core, at);
			}
			park->first = core->flows[at].next;
		}
		if (park->first != NONE)
			core->crowded.items[kept++] = link;
	}
	core->crowded.count = kept;
}

static inline void loosen(struct steps *core, uint32_t at)
{
	if (core->flows[at].loose)
		return;
	core->flows[at].loose = true;
	add(&core->loose, at);
}

/* Queues the flows that may be wanted now. */
static void settle(struct steps *core)
{
	for (uint32_t one = 0; one < core->fresh.count; one++) {
		uint32_t at = core->fresh.items[one];
		if (is_wanted(core, at) && !core->flows[at].queued) {
			enter(core, at);
			loosen(core, at);
		}
	}
	core->fresh.count = 0;
}
