/* MCP (Karuna, SIGCOMM 2016, section 3): the rate of a flow with a deadline. tests/unit/agents/priorities/mcp_model.py computes
 * the same. Integers only: bytes, microseconds, bytes per second; fractions in 1/MCP_ONE. No product exceeds 2^64 on links of
 * up to 100 Gb/s (MOST_LINK_BPS in agents/priorities/mcp_settings.py, which McpSettings enforces).
 *
 * MCP lets a flow end just in time, which leaves the rest of the link to flows without a deadline. Symbols, with their units:
 *
 *     gamma  expected rate: bytes left / time left   bytes/s      Z    backlog, bytes behind what was expected
 *     x      sending rate                            bytes/s      F    fraction of the last round trip's segments with a mark
 *     tau    smoothed round trip time                s            K    marking threshold, bytes (packets * segment size)
 *     C      the link's rate                         bytes/s      P    the price, bytes
 *
 * **What the paper prints** (equation 11) adds packets to rates: W += tau [ Z gamma / x^2 - (K + F W + lambda) ]. Consistent
 * units (all in packets, the bracket without one) give dW = kappa C tau [ Z gamma / (tau x^2) - (K + F W) / (C tau) ]. Its gain
 * still is 2 kappa (K + F W) / (gamma tau) per round trip, with gamma tau down to a part of a segment: no kappa suits both a
 * flow of 2 % and one of 50 % of the link.
 *
 * **What is done here** keeps the balance of that form, Z gamma / x^2 = P / C, and goes to it at a speed of its own:
 *
 *     Z  <- [ Z + gamma t - bytes acknowledged in t ]+         once a round trip, t its measured length
 *     P   = C tau + K + F x tau
 *     Z*  = P x^2 / (C gamma)                                  the backlog at which x would stay
 *     x  <- x + kappa x (Z - Z*) / Z*                          at most doubled, at most halved; floor <= x <= C
 *
 * * A gradient step times a positive number still goes down the same objective (equation 7), so the rates at rest are the
 *   paper's.
 * * In P the pipe, C tau, stands beside the queue: the paper's link delay d(y), which for M/M/1 begins at the service time and
 *   not at 0. It also makes the loop stable on each link: acknowledgements being a round trip late, deviations from x = gamma obey
 *   e(n) = (2 - 2 kappa) e(n-1) - (1 - 2 kappa + kappa C tau / P) e(n-2), and C tau / P <= 1. With the form above they grow
 *   where C tau > 2 (K + F W).
 * * A flow starts at x = gamma and Z = Z*, in balance. From Z = 0 it would first fall behind by K gamma / C bytes.
 * * Rates, not windows: at 100 Mb/s and 0.2 ms, one segment a round trip is already 60 Mb/s. So the stack paces at x, and the
 *   window, 1.5 x tau plus 3 segments (1.5 C tau where x = C), only bounds the data in flight.
 * * A lost segment halves the rate; a timeout sets it to a segment a round trip. The stack spaces the next segment by the rate at
 *   which it sent the last, so a lower rate would hold the flow back for long after it has risen again.
 * * The floor is a segment a round trip, or gamma where that is less. lambda of equation 11 is left out: its rate estimate is the
 *   queue's growth, which F and tau already show.
 * * The kernel adds one segment to the remaining bytes: it sends whole segments, a gap of the pacing clock apart, and the last gap
 *   must end before the deadline (mcp.bpf.c, `expected_of`). Only a flow of a few segments ends noticeably earlier for it.
 * * gamma aims at a part of the deadline (`McpSettings.aim`) and two round trips before it at least, for a handshake's delay and
 *   the last round trips.
 *
 * **Too much for the link.** Where flows with deadlines have the first queue for themselves, only they make it longer, so they see
 * it in their round trips: tau less the connection's least, and less the time between two of the flow's own segments, since Linux
 * acknowledges every second segment, and a lone one after 40 ms. So a flow does not see what is less than a segment of its own in
 * the queue. While it is longer than `crowd_packets` no flow speeds up. A flow with the time s until its deadline yields the part
 * y / 2 of its rate in a round trip, y = s / (s + 64 tau), and at least a 16th of the queue's length over the wanted one: later
 * deadlines yield to earlier ones. By the time that a flow could stand still instead, all that are too much become equally urgent,
 * and late together. Its window has no more than the wanted queue. A flow for which the whole link would be too slow is late
 * whatever it does: it waits, at 100 segments a second, until its deadline has passed and it goes on among the flows without one.
 *
 * **Termination** by schemes of the paper: 1, by backlog, Z > multiple * (C tau + K), the paper's Z > C having no unit (a flow
 * starts with Z <= C tau + K, so multiples below 2 give flows up that would be in time); 2, by rate, gamma > C; 3, never. */
#ifndef BATON_MCP_H
#define BATON_MCP_H

#define MCP_BITS 10
#define MCP_ONE (1ULL << MCP_BITS)
#define SHARE_BITS 20
#define US_PER_S 1000000ULL
#define MOST_RTT_US US_PER_S
#define MOST_ELAPSED_US US_PER_S
#define MOST_PRICE (1ULL << 29) /* bytes */
#define MOST_BEHIND (1ULL << 40) /* bytes */
#define MOST_EXPECTED (1ULL << 36) /* bytes/s */
#define MOST_RATIO (1ULL << 20)
#define SLOWEST 10		/* segments a second */
#define SPARE_SEGMENTS 3
#define SPARE_RTTS 2
#define WAITING 100	   /* segments a second */
#define PATIENCE_BITS 6
#define LEAST_BITS 4
#define MOST_HELD_US 40000 /* Linux' delayed acknowledgement: TCP_DELACK_MIN */

enum mcp_termination { MCP_BY_BACKLOG = 1, MCP_BY_RATE = 2, MCP_NEVER = 3 };

struct mcp_settings {
	__u64 link_rate;       /* C, bytes/s */
	__u32 marking_packets; /* K */
	__u32 kappa;	       /* gain, in 1/MCP_ONE */
	__u32 aim;	       /* part of the deadline by which all data are to be acknowledged, in 1/MCP_ONE */
	__u32 termination;     /* enum mcp_termination */
	__u32 multiple;	       /* of the empty price, in 1/MCP_ONE: MCP_BY_BACKLOG */
	__u32 crowd_packets;   /* the length of a queue of their own from which flows yield; 0: they share their queue */
};

struct mcp_flow {
	__u64 rate;   /* x, bytes/s */
	__u64 behind; /* Z, bytes */
};

struct mcp_window { /* measured in one round trip */
	__u64 expected; /* gamma, bytes/s */
	__u64 elapsed_us;
	__u64 acked; /* bytes */
	__u64 rtt_us;
	__u32 delivered; /* segments */
	__u32 marked;
	__u32 mss;
	__u32 reserved;
	__u64 queue_us; /* of rtt_us, spent in queues */
	__u64 chance_us; /* mcp_chance */
};

static inline __u64 mcp_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* gamma: the remaining bytes over the remaining time, which is at least one round trip. */
static inline __u64 mcp_expected(__u64 remaining, __u64 left_us, __u64 rtt_us)
{
	__u64 least = mcp_min(rtt_us ? rtt_us : 1, MOST_RTT_US);
	__u64 expected = remaining * US_PER_S / (left_us > least ? left_us : least);

	return expected ? mcp_min(expected, MOST_EXPECTED) : 1;
}

/* The time until all data are to be acknowledged: part of the deadline, and at least SPARE_RTTS before it. */
static inline __u64 mcp_time_left(const struct mcp_settings *s, __u64 deadline_us, __u64 elapsed_us, __u64 rtt_us)
{
	__u64 spent = elapsed_us + SPARE_RTTS * mcp_min(rtt_us, MOST_RTT_US);
	__u64 aimed = deadline_us * s->aim >> MCP_BITS, spare = deadline_us > spent ? deadline_us - spent : 0;

	return mcp_min(aimed > elapsed_us ? aimed - elapsed_us : 0, spare);
}

/* P, in bytes: the pipe, the queue up to the marking threshold, and the queue beyond it that F indicates. */
static inline __u64 mcp_price(const struct mcp_settings *s, __u64 rate, const struct mcp_window *w)
{
	__u64 rtt_us = mcp_min(w->rtt_us, MOST_RTT_US);
	__u64 price = s->link_rate * rtt_us / US_PER_S + (__u64)s->marking_packets * w->mss;
	__u64 window = rate * rtt_us / US_PER_S;

	if (w->delivered)
		price += window * (w->marked < w->delivered ? w->marked : w->delivered) / w->delivered;
	return mcp_min(price, MOST_PRICE);
}

/* Z*: the backlog at which the rate stays as it is, P x^2 / (C gamma). */
static inline __u64 mcp_balance(const struct mcp_settings *s, __u64 rate, __u64 price, __u64 expected)
{
	__u64 share = (rate << SHARE_BITS) / s->link_rate;
	__u64 even = (price * share >> SHARE_BITS) * rate / expected;

	return even ? mcp_min(even, MOST_BEHIND) : 1;
}

/* One segment a round trip, at most gamma, and at least the lowest rate that the pacing clock can keep. */
static inline __u64 mcp_floor(const struct mcp_window *w)
{
	__u64 segment = (__u64)w->mss * US_PER_S / mcp_min(w->rtt_us ? w->rtt_us : 1, MOST_RTT_US);
	__u64 floor = mcp_min(segment, w->expected), slowest = (__u64)w->mss * SLOWEST;

	return floor > slowest ? floor : slowest;
}

static inline __u64 mcp_within(const struct mcp_settings *s, const struct mcp_window *w, __u64 rate)
{
	__u64 floor = mcp_floor(w);

	return mcp_min(rate > floor ? rate : floor, s->link_rate);
}

/* A flow starts at the expected rate and at the backlog that keeps it. */
static inline void mcp_start(const struct mcp_settings *s, struct mcp_flow *flow, const struct mcp_window *w)
{
	flow->rate = mcp_within(s, w, w->expected);
	flow->behind = mcp_balance(s, flow->rate, mcp_price(s, flow->rate, w), w->expected);
}

/* After a timeout: a segment a round trip, as with a window of one. Not less: the stack spaces the next segment by the rate at
 * which it sent the last, so at SLOWEST a flow would stand still for a tenth of a second, whatever its rate is by then. */
static inline __u64 mcp_restart(const struct mcp_settings *s, __u64 rtt_us, __u32 mss)
{
	__u64 segment = (__u64)mss * US_PER_S / mcp_min(rtt_us ? rtt_us : 1, MOST_RTT_US);

	return mcp_min(segment, s->link_rate);
}

/* The time until a flow's deadline; 0: the whole link would be too slow for it, it is hopeless. */
static inline __u64 mcp_chance(const struct mcp_settings *s, __u64 remaining, __u64 left_us)
{
	__u64 needed_us = remaining * US_PER_S / s->link_rate;

	return left_us > needed_us ? left_us : 0;
}

/* The part of a round trip that was spent in queues: what it has more than the shortest one, less the time for which the receiver
 * may have held the acknowledgement back: until the flow's next segment came, MOST_HELD_US at most. */
static inline __u64 mcp_queue_us(__u64 rtt_us, __u64 least_rtt_us, __u64 rate, __u32 mss)
{
	__u64 held_us = mcp_min(mss * US_PER_S / (rate ? rate : 1), MOST_HELD_US);

	return rtt_us > least_rtt_us + held_us ? rtt_us - least_rtt_us - held_us : 0;
}

/* How many times longer, in 1/MCP_ONE, than flows may make it the queue is that flows with deadlines have for themselves. */
static inline __u64 mcp_crowding(const struct mcp_settings *s, const struct mcp_window *w)
{
	__u64 most = (__u64)s->crowd_packets * w->mss;
	__u64 waiting = s->link_rate * mcp_min(w->queue_us, mcp_min(w->rtt_us, MOST_RTT_US)) / US_PER_S;

	return most ? mcp_min((waiting << MCP_BITS) / most, MOST_RATIO) : 0;
}

/* In 1/MCP_ONE, twice the part of its rate that a flow yields: the more, the later its deadline, and the longer the queue. */
static inline __u64 mcp_yielding(const struct mcp_window *w, __u64 crowd)
{
	__u64 rtt_us = mcp_min(w->rtt_us, MOST_RTT_US);
	__u64 patience = (w->chance_us << MCP_BITS) / (w->chance_us + ((rtt_us ? rtt_us : 1) << PATIENCE_BITS));
	__u64 least = crowd >> LEAST_BITS;

	return mcp_min(patience > least ? patience : least, MCP_ONE);
}

/* A round trip later: Z <- [Z + gamma t - acked]+, then x <- x (1 + kappa (Z - Z*) / Z*), at most doubled or halved, from at most C,
 * which may be less than it was. Where flows with deadlines have a queue of their own, a hopeless flow waits, and in a crowd flows
 * yield. */
static inline void mcp_step(const struct mcp_settings *s, struct mcp_flow *flow, const struct mcp_window *w)
{
	__u64 due = flow->behind + w->expected * mcp_min(w->elapsed_us, MOST_ELAPSED_US) / US_PER_S;
	__u64 crowd = mcp_crowding(s, w), gain, even, change;

	flow->rate = mcp_min(flow->rate, s->link_rate);
	gain = flow->rate * s->kappa >> MCP_BITS;
	flow->behind = due > w->acked ? mcp_min(due - w->acked, MOST_BEHIND) : 0;
	even = mcp_balance(s, flow->rate, mcp_price(s, flow->rate, w), w->expected);
	if (s->crowd_packets && !w->chance_us) {
		flow->rate = mcp_min((__u64)w->mss * WAITING, s->link_rate);
		return;
	}
	if (crowd > MCP_ONE) {
		flow->rate -= flow->rate * mcp_yielding(w, crowd) >> (MCP_BITS + 1);
		flow->behind = mcp_min(flow->behind, even);
	} else if (flow->behind >= even) {
		change = gain * mcp_min(((flow->behind - even) << MCP_BITS) / even, MOST_RATIO) >> MCP_BITS;
		flow->rate += mcp_min(change, flow->rate);
	} else {
		change = gain * (((even - flow->behind) << MCP_BITS) / even) >> MCP_BITS;
		flow->rate -= mcp_min(change, flow->rate >> 1);
	}
	flow->rate = mcp_within(s, w, flow->rate);
}

/* Segments in flight: 1.5 times what the rate needs, so that pacing and not the window sets the rate; 1.5 BDP at rate C. */
static inline __u32 mcp_segments(__u64 rate, __u64 rtt_us, __u32 mss)
{
	__u64 window = rate * mcp_min(rtt_us, MOST_RTT_US) / US_PER_S;

	return (window + (window >> 1)) / (mss ? mss : 1) + SPARE_SEGMENTS;
}

/* The time that packets may wait in a queue of their own, in us; 0: flows share their queue. */
static inline __u64 mcp_crowd_us(const struct mcp_settings *s, __u32 mss)
{
	return (__u64)s->crowd_packets * mss * US_PER_S / s->link_rate;
}

/* mcp_segments; in a crowd what the rate needs while the queue is as long as it may be, and a segment. What the receiver holds back
 * is no queue, so it may have one segment while the next is under way. */
static inline __u32 mcp_in_flight(const struct mcp_settings *s, __u64 rate, __u64 rtt_us, __u64 queue_us, __u32 mss)
{
	__u64 most_us = mcp_crowd_us(s, mss);

	rtt_us = mcp_min(rtt_us, MOST_RTT_US);
	queue_us = mcp_min(queue_us, rtt_us);
	if (!s->crowd_packets || queue_us <= most_us)
		return mcp_segments(rate, rtt_us, mss);
	return rate * (rtt_us - queue_us + most_us) / US_PER_S / (mss ? mss : 1) + 1;
}

/* Whether to give a flow up: scheme 1 when Z exceeds the multiple of the empty price, 2 when the whole link would not do. */
static inline int mcp_gives_up(const struct mcp_settings *s, const struct mcp_flow *flow, const struct mcp_window *w,
			       __u64 remaining, __u64 left_us)
{
	struct mcp_window empty = *w;

	if (s->termination == MCP_BY_RATE)
		return remaining * US_PER_S > s->link_rate * left_us;
	if (s->termination != MCP_BY_BACKLOG)
		return 0;
	empty.marked = 0;
	return flow->behind > mcp_price(s, flow->rate, &empty) * s->multiple >> MCP_BITS;
}

#endif
