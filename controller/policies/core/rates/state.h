/* This file says what the rate limit knows: senders, their leases and rises, and the share-out that was begun. A part of
 * rates.c. */
#pragma once
#include "../roster.h"
#include "../plan.h"
#include "../weights.h"

typedef __int128 wide;

#define PPM 1000000
enum { MANY_SENDERS = 1000, REST_NS = 2000, TOLD_NS = 20000, MOST_TIMES = 4 }; /* see controller/policies/rates/policy.py */
enum { PRESSED = 2, PATIENCE = 3, LEAST_DEMAND_PART = 100, LONGEST = 8, RENEWED_AT_ONCE = 64, RISEN_AT_ONCE = 256, LOOKS_AT_ONCE = 256 };
enum { FALL_STEPS = 8 };
static const double USED = 0.97, MARGIN = 1.06;
static const int64_t MOST_PARTS = (int64_t)1 << 40, WEIGHT_UNIT = 1000000;

struct sender {
	/* what a renewal needs: a line */
	uint64_t lease;              /* its number; 0: it has none */
	int64_t start, end, rate;    /* of its lease */
	int64_t idle, look;          /* idle -1: it waits or sends; look: when its lease is looked at next */
	uint32_t id, destination;    /* of its node */
	uint64_t planned;            /* the last plan that granted something to it */
	/* what a share-out needs: a line */
	uint64_t since, rising;      /* when it began, which no other sender did; the number of its rise, 0: its rate rises not */
	int64_t rise_at, rise_to, then_at, then_to; /* then_to 0: not once more */
	int64_t wants;               /* -1: all that it can get */
	uint32_t order;              /* its place in `begun` */
	bool sends;
	/* the rest */
	uint32_t unused, pressed;    /* reports in a row: a part of the rate was left; it had a backlog, PRESSED at most */
	uint32_t before, after;      /* the senders of its node, in the order in which they began */
	int64_t most_sent;
} __attribute__((aligned(LINE)));

struct row { /* a node's senders */
	uint32_t first, last;
};

struct due { /* a lease is looked at, or a rate rises */
	int64_t at;
	uint64_t number;
	uint32_t pair;
};
#define DUE_BEFORE(a, b) ((a).at != (b).at ? (a).at < (b).at : (a).number < (b).number)
HEAP(dues, struct due, DUE_BEFORE)

/* -- a share-out ---------------------------------------------------------------------------------------------------------- */

struct share { /* of a link, a node or a demand */
	int64_t left, weight;
	uint32_t first, last; /* the flows that cross it, as a list of crossings */
};

struct crossing { /* flow i has those from i << flow_shift on, with its node's first */
	uint32_t share, next;
};

struct flow {
	uint64_t since; /* of its sender */
	int64_t parts, rate; /* rate 0: not found yet */
	uint32_t pair, count; /* so many crossings */
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

struct seen { /* the share of a link or node, in a share-out */
	uint64_t round;
	uint32_t share;
};

enum stage { NOTHING_SHARED, COLLECTING, ORDERING, FILLING, FALLING, RISING };

struct share_out {
	enum stage stage;
	uint64_t round;
	uint32_t at, end, kept;       /* of what the stage goes through: places in `begun`, shares, `fixed` or `rising` */
	uint32_t flow_count, share_count, found, falls, rising_count;
	uint32_t crossing;            /* of the full link, the next that is looked at; NONE: there is no such link */
	int64_t room, weight;         /* of the full link, as it was */
	int64_t parts, rate;          /* that was divided last: parts of it are this rate */
	struct flow *flows;
	struct share *shares;
	struct crossing *crossings;
	struct seen *links, *members;
	uint32_t *fixed, *rising;     /* flows in the order in which they were fixed; those that rise, by then */
	uint32_t flow_shift, flow_room, share_room, link_room, member_room, crossing_room, fixed_room, rising_room;
	struct levels levels;
};

struct rates {
	struct roster roster;
	int64_t lease, headroom_ppm, steps_at_once, now, horizon, heard; /* now, horizon: of the last plan */
	struct weights weights;
	struct sender *senders;
	struct row *rows;
	uint32_t *begun, begun_count, begun_room; /* pairs in the order in which they began; NONE: one that ended */
	uint32_t sender_room, row_room;
	struct dues due, rises;
	bool stale, rewiring, waits; /* waits: a plan has left the share-out to one that may */
	int64_t rest_until, length; /* length: of the lease of a new rate */
	uint64_t last_number, begins, planned, rise_number;
	uint32_t *renewed, renewed_room, *scratch, scratch_room, fresh_room;
	uint64_t *fresh; /* pairs that begin to send, by destination */
	struct share_out share_out;
	/* what is planned */
	struct slot *grants, *revokes;
	uint32_t grant_count, grant_room, revoke_count, revoke_room;
};
