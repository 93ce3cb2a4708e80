/* What the steps policy knows: flows, the queue of those that wait, and what is granted in each step that is planned. The words
 * are those of controller/policies/steps/.
 *
 * A step has a bit, number % AHEAD. By link, `open` says whether a link has room in a step for the flow that needs least of it.
 * So one AND over a path says in which steps of a window a flow may fit; it does fit unless needs are `uneven`. Where they are
 * not, a link that has room for one flow alone needs no other account (`single`).
 */
#pragma once
#include "../roster.h"
#include "../plan.h"
#include "../weights.h"

#define PPM 1000000
#define BYTE ((wide)8 * 1000000000 * PPM)
#define MOST_CREDIT ((wide)1 << 31)
typedef unsigned __int128 wide;
typedef uint16_t bits; /* of steps */
#define EVERY UINT16_MAX

enum { AHEAD = 16, ROUNDS = AHEAD, SPARE = 10, TRIES = 16, LEAST_PART = 8, TURN = 8, INSIDE = 6, INLINE = 4, SOON = 12,
       FAR = 24, NOWHERE = 0 }; /* SOON, FAR: so far ahead what will be asked for is fetched; NOWHERE: a link without room, ever */
#define UNKNOWN ((int64_t)1 << 62) /* more bytes than a host may say */

/* All that a step asks of a flow is in one line of the cache; its links, too, unless there are more than INSIDE. */
struct flow {
	int64_t need, left; /* left: bytes that wait without a slot, or UNKNOWN */
	double credit;
	uint32_t node, to;		 /* the indexes of its node and its destination */
	uint16_t count;			 /* of links */
	bool queued : 1, awake : 1, loose, slow, wanted; /* slow: its node sends faster than its path carries */
	bits steps;			 /* it has slots in no other steps than these, by bit */
	uint32_t links[INSIDE];
} __attribute__((aligned(LINE)));

/* In the queue: the flow, and up to four links of its path, the first three and the last one; where they are fewer some are the same.
 * A flow that left has NONE, and link NOWHERE. */
struct place {
	uint32_t flow, first, second, third, last;
};

struct room { /* of a link: all there is, and what the flow takes that takes least */
	int64_t all, least;
};

struct left { /* of a link, by step: what is free; not valid where nothing is taken (`touched`) */
	int64_t in[AHEAD];
};

struct crowd { /* of a link: what the flows that are awake take of it, and how many are parked there */
	int64_t awake;
	uint32_t parked;
};

struct park { /* of a link: flows[first] and on are parked there, in this order */
	uint32_t *flows, first, room;
};

struct held { /* a node's slot in a step; amount: its bytes, or what its rate is less than 0 */
	int64_t number, start, amount;
	uint32_t flow;
};

struct slots { /* of a node, by step: side by side, as they are granted */
	struct held of[AHEAD];
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

struct amount { /* what a slot permits: bytes, or a rate */
	int64_t bytes, rate;
};

struct credit { /* for the rates, and the length of a slot, that were asked for last */
	int64_t need, sends, length, carried; /* carried: bytes, without what is carried to the node's next slot */
	uint64_t packet, rest;		      /* of a packet, in parts of a byte: all, and what is over */
	struct amount amounts[2];	      /* without, and with a packet more from what was carried */
};

struct steps {
	struct roster roster; /* first, for EXPORT_PLACES */
	int64_t step_ns, headroom_ppm, burst_bytes, packet_bytes;
	uint32_t at_once; /* slots that a plan grants before it goes on to another step */
	uint32_t turn;	  /* steps of a turn */
	bool counted;	  /* hosts tell how many bytes wait */
	struct flow *flows;
	int64_t *sends, *needed; /* by flow: what its packets arrive with behind its node's first link; its need in the network before */
	uint32_t sends_room, needed_room;
	uint32_t flow_room;
	struct weights weights;
	double least_weight;
	struct spot *spots; /* by node; switched NONE: not known */
	uint32_t spot_room, *routes, route_count, route_room, *path, path_room;
	struct map route_of; /* by both switches: where in `routes` are the number of links, and the links */
	/* by link */
	bits *open, *touched; /* a bit a step */
	bool *single;
	struct room *room;
	struct left *left;
	struct crowd *crowds;
	struct park *parks;
	uint32_t open_room, touched_room, single_room, room_room, left_room, crowd_room, park_room;
	bool uneven;   /* flows of one link need different parts of it */
	bool rewiring; /* flows have no places yet */
	uint32_t replaced; /* flows that have one again, after links carry more or less */
	/* by node */
	uint64_t *carries;
	uint32_t *ids;
	bits *busy; /* a bit a step: that the node has a slot */
	struct slots *held;
	uint32_t carry_room, id_room, busy_room, held_room;
	int64_t longest_delay;
	/* the queue */
	struct places queue;
	uint32_t gone; /* places whose flows left */
	uint32_t awake_count;
	struct flows crowded, loose, fresh; /* crowded: links where flows are parked; fresh: flows that may be wanted now */
	struct flows turns;		    /* flows that were queued when the network changed, in their order */
	struct flows idle;		    /* flows that may be forgotten now */
	struct flows spent;		    /* while a plan is made: flows whose bytes have slots now */
	/* steps */
	int64_t numbers[AHEAD]; /* by bit; -1: over, or never planned */
	bits planned;
	int64_t next, lead; /* the first step that is not planned; how far ahead the last plan was asked for */
	uint32_t filled;    /* slots a step when steps were matched last; at first as many as `at_once` */
	/* while a plan is made */
	bits window;	      /* the steps that are matched */
	uint32_t window_from; /* the bit of the first of them */
	uint32_t window_size;
	uint32_t *rows, row_room; /* by node, then by step of the window: the flow that is to be granted it */
	bool punctual;	      /* every node learns of them in time */
	struct flows picked;  /* the nodes that send in the window */
	uint32_t chosen_count;
	struct credit credit;
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
	return core->flows[at].wanted;
}

static inline const uint32_t *path_of(const struct steps *core, uint32_t at)
{
	const struct flow *flow = &core->flows[at];
	return flow->count <= INSIDE ? flow->links : links_of(&core->roster, at);
}

/* -- steps ---------------------------------------------------------------------------------------------------------------- */

/* The first step that may be planned and is not over. */
static inline int64_t first_step(const struct steps *core)
{
	return core->roster.now / core->step_ns;
}

/* The bits of the steps that are planned, in their order. */
#define EACH_STEP(core, bit)                                                                                            \
	for (int64_t number = first_step(core), end = number + AHEAD; number < end; number++)                          \
		for (uint32_t bit = number % AHEAD; bit < AHEAD && (core)->numbers[bit] == number; bit = AHEAD)

/* The bits of some steps in the order that begins with `from`, which comes first. */
static inline uint32_t in_turn(bits steps, uint32_t from)
{
	return (bits)((uint32_t)steps >> from | (uint32_t)steps << (AHEAD - from));
}

static inline uint32_t *row_of(const struct steps *core, uint32_t node)
{
	return &core->rows[(size_t)node * core->window_size];
}

static inline struct held *slot_at(const struct steps *core, uint32_t node, uint32_t bit)
{
	return &core->held[node].of[bit];
}

static inline int64_t start_of(const struct steps *core, uint32_t bit, uint32_t at)
{
	int64_t start = core->numbers[bit] * core->step_ns;
	if (core->roster.now + core->longest_delay <= start)
		return start;
	int64_t delay = core->roster.members[core->flows[at].node].delay;
	int64_t soonest = core->roster.now + (delay > 0 ? delay : 0);
	return soonest > start ? soonest : start;
}

/* -- room ----------------------------------------------------------------------------------------------------------------- */

static inline int64_t left_of(const struct steps *core, uint32_t link, uint32_t bit)
{
	return core->touched[link] >> bit & 1 ? core->left[link].in[bit] : core->room[link].all;
}

/* Those of some steps in which every link of a flow's path has room. */
static inline bits fitting(const struct steps *core, uint32_t at, bits steps)
{
	const uint32_t *links = path_of(core, at);
	uint32_t count = core->flows[at].count;
	for (uint32_t one = 0; one < count; one++)
		steps &= core->open[links[one]];
	if (!core->uneven)
		return steps;
	for (uint32_t one = 1; one < count; one++)
		for (uint32_t bit = 0; bit < AHEAD; bit++)
			if (steps >> bit & 1 && left_of(core, links[one], bit) < core->flows[at].need)
				steps &= (bits)~(1 << bit);
	return steps;
}

/* Those of some steps that a node learns of in time. */
static inline bits in_time(const struct steps *core, uint32_t at, bits steps)
{
	for (uint32_t others = steps; others; others &= others - 1) {
		uint32_t bit = (uint32_t)__builtin_ctz(others);
		if ((core->numbers[bit] + 1) * core->step_ns - start_of(core, bit, at) < core->step_ns / LEAST_PART)
			steps &= (bits)~(1 << bit);
	}
	return steps;
}

/* Takes what a flow needs in some steps; gives it back with a `sign` of -1. Bytes may alias anything, so pointers are kept here. */
static inline void take(const struct steps *core, uint32_t at, bits steps, int64_t sign)
{
	const uint32_t *links = path_of(core, at);
	bits *open = core->open, *touched = core->touched;
	const bool *single = core->single;
	const struct room *room = core->room;
	struct left *left = core->left;
	uint32_t count = core->flows[at].count;
	int64_t need = sign * core->flows[at].need;
	for (uint32_t one = 0; one < count; one++) {
		uint32_t link = links[one];
		if (single[link]) {
			open[link] ^= steps;
			continue;
		}
		for (uint32_t others = steps; others; others &= others - 1) {
			uint32_t bit = (uint32_t)__builtin_ctz(others);
			int64_t rest = (touched[link] >> bit & 1 ? left[link].in[bit] : room[link].all) - need;
			left[link].in[bit] = rest;
			open[link] = (bits)((open[link] & ~(1 << bit)) | (rest >= room[link].least) << bit);
		}
		touched[link] |= steps;
	}
}

/* All is free in some steps. */
static inline void clear(const struct steps *core, bits steps)
{
	bits *restrict open = core->open, *restrict touched = core->touched;
	uint32_t count = core->roster.link_count;
	for (uint32_t link = 0; link < count; link++) {
		open[link] |= steps;
		touched[link] &= (bits)~steps;
	}
	if (count)
		open[NOWHERE] = 0;
}

/* Needs differ: every link but a flow's first one needs an account of what is left. */
SELDOM void set_uneven(struct steps *core)
{
	core->uneven = true;
	for (uint32_t link = 0; link < core->roster.link_count; link++)
		core->single[link] = core->room[link].all == 1;
	if (core->rewiring)
		return;
	clear(core, EVERY);
	EACH_STEP(core, bit)
		for (uint32_t node = 0; node < core->busy_room; node++)
			if (core->busy[node] >> bit & 1)
				take(core, slot_at(core, node, bit)->flow, (bits)(1 << bit), 1);
}

/* A flow needs so much of a link. */
static inline void note_need(struct steps *core, uint32_t link, int64_t need)
{
	struct room *room = &core->room[link];
	int64_t least = room->least;
	if (need == least)
		return;
	if (need < least)
		room->least = need;
	if (least == INT64_MAX)
		core->single[link] = !core->uneven && room->all < 2 * need;
	else
		set_uneven(core);
	for (uint32_t bit = 0; bit < AHEAD && need < least && !core->single[link]; bit++) {
		core->open[link] &= (bits)~(1 << bit);
		core->open[link] |= (bits)((left_of(core, link, bit) >= need) << bit);
	}
}
