/* This file says what the rate limit knows: senders, their leases and rises, and the shares of links and nodes. A part of
 * rates.c. */
#pragma once
#include "../roster.h"
#include "../plan.h"
#include "../weights.h"

typedef __int128 wide;

#define PPM 1000000
enum { MANY_SENDERS = 1000, REST_NS = 2000, TOLD_NS = 20000, MOST_TIMES = 4 }; /* see controller/policies/rate_limit.py */
enum { PRESSED = 2, PATIENCE = 3, LEAST_DEMAND_PART = 100, LONGEST = 8, RENEWED_AT_ONCE = 64, RISEN_AT_ONCE = 256, LOOKS_AT_ONCE = 256 };
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
	int64_t rise_at, rise_to, then_at, then_to; /* then_to 0: not once more */
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
	bool stale, rewiring, waits; /* waits: a plan has left the share-out to one that may */
	int64_t rest_until, length; /* length: of the lease of a new rate */
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
