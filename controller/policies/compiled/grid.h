/* What the steps policy knows: flows, the queue of those that wait, and what is granted in each step that is planned. The words
 * are those of controller/policies/steps/. */
#pragma once
#include "roster.h"
#include "slots.h"
#include "weights.h"

#define PPM 1000000
#define BYTE ((wide)8 * 1000000000 * PPM)
typedef unsigned __int128 wide;

enum { AHEAD = 8, ROUNDS = 6, SPARE = 10, TRIES = 16, LEAST_PART = 8, INSIDE = 6, SOON = 12, BLOCK = 64 };

/* All that a step asks of a flow is in one line of the cache; its links, too, unless there are more than INSIDE. */
struct flow {
	int64_t need;
	double credit;
	uint32_t node, id, destination; /* id: of the node */
	uint16_t count;			/* of links */
	bool queued, awake, exchanged, loose, slow; /* slow: its node sends faster than its path carries */
	uint32_t links[INSIDE];
} __attribute__((aligned(LINE)));

/* In the queue. `gate` is the second link of a path of more than two, else the first one: where it is full there is no room on the
 * nearer half. */
struct place {
	uint32_t flow, node, gate;
};

/* Of a node that sends. A flow whose turn was over stands at the end of the queue as well as, stale, where it was
 * before; the next time that a step goes through the queue it leaves there. */
struct sender {
	uint32_t chosen;   /* while a step is matched: its flow; else NONE */
	uint32_t stale;	   /* a flow that has a stale place; NONE: none has */
	uint32_t unwanted; /* how many of its flows that are awake are wanted no more */
	bool stuck;	   /* while a step is matched: it cannot send elsewhere */
};

struct crowd { /* of a link: what the flows that are awake take of it, and how many are parked there */
	int64_t awake;
	uint32_t parked;
};

struct park { /* of a link: flows[first] and on are parked there, in this order */
	uint32_t *flows, first, room;
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

struct waiter { /* a flow that waits; `last` is the link to the destination, 0 if it has no path */
	uint32_t flow, destination, last;
	bool told; /* while a backlog is taken: that it says so */
};

struct waiting { /* of a node: the flows that wait there, and for it, in the order in which they began to */
	struct waiter *out;
	uint32_t out_count, out_room;
	struct flows in;
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
	struct waiting *waiting; /* by node */
	uint32_t waiting_room;
	struct spot *spots; /* by node; switched NONE: not known */
	uint32_t spot_room, *routes, route_count, route_room, *path, path_room;
	struct map route_of; /* by both switches: where in `routes` are the number of links, and the links */
	/* by link */
	int64_t *room; /* what it carries; 1 for the first one of a path */
	struct crowd *crowds;
	struct park *parks;
	uint32_t room_room, crowd_room, park_room;
	uint64_t *carries; /* by node */
	uint32_t carry_room;
	int64_t longest_delay;
	/* the queue */
	struct places queue;
	uint32_t awake_count;
	struct flows crowded, loose, fresh; /* crowded: links where flows are parked; fresh: flows that may be wanted now */
	struct sender *senders; /* by node */
	uint32_t sender_room;
	/* while a step is matched */
	uint32_t *owners; /* by link: the flow that takes it last of its path */
	uint32_t owner_room;
	struct flows picked; /* the nodes that send */
	struct places idle;  /* what has room on the nearer half of its path alone */
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

static inline const uint32_t *path_of(const struct steps *core, uint32_t at)
{
	const struct flow *flow = &core->flows[at];
	return flow->count <= INSIDE ? flow->links : links_of(&core->roster, at);
}

/* -- room ----------------------------------------------------------------------------------------------------------------- */

/* How many links of a flow's path have room, from the first one on to one that has none. */
static inline uint32_t reach(const struct steps *core, const struct step *step, uint32_t at)
{
	const uint32_t *links = path_of(core, at);
	uint32_t count = core->flows[at].count, one = 1;
	int64_t need = core->flows[at].need;
	if (!step->left[links[0]])
		return 0;
	while (one < count && step->left[links[one]] >= need)
		one++;
	return one;
}

static inline bool fits(const struct steps *core, const struct step *step, uint32_t at)
{
	return reach(core, step, at) == core->flows[at].count;
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

static inline bool in_time(const struct steps *core, const struct step *step, uint32_t at)
{
	return (step->number + 1) * core->step_ns - start_of(core, step, at) >= core->step_ns / LEAST_PART;
}

static inline bool may(const struct steps *core, const struct step *step, uint32_t at)
{
	return is_wanted(core, at) && fits(core, step, at) && in_time(core, step, at);
}
