/* A flow with a deadline under MCP, for both ways to run it: the congestion control baton_mcp (mcp.bpf.c), and callbacks beside
 * the kernel's dctcp where the kernel has no struct_ops (mcp_callbacks.bpf.c). The arithmetic is mcp.h's.
 *
 * A flow begins with the data that a connection without outstanding data sends; data beyond the size of its mark (flowmark.h) are
 * a further flow with the same mark. The deadline counts from the first data; on a new connection from one round trip earlier,
 * for the handshake. Include it after the kernel's types, the helpers, address.h, flowmark.h and mcp.h. */
#ifndef BATON_MCP_FLOW_H
#define BATON_MCP_FLOW_H

#define US_PER_MS 1000
#define SRTT_SHIFT 3 /* the stack holds eight times the time */
#define FIRST_RTT_US 1000
#define EVENTS_BYTES (64 << 10)
#define PATHS 16384 /* addresses: as MOST_PATHS in congestion_control.py */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mcp_settings);
} mcp_settings SEC(".maps");

/* C and K of the way to an address, as the leader told them; to all other addresses the common settings count. */
struct mcp_path {
	__u64 link_rate; /* bytes/s */
	__u32 marking_packets;
	__u32 crowd_packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH); /* allocated at once: a map that grows fails in virtual time */
	__uint(max_entries, PATHS);
	__type(key, struct address);
	__type(value, struct mcp_path);
} mcp_paths SEC(".maps");

/* The settings for flows to an address; false: there are none. */
static __always_inline int settings_towards(struct mcp_settings *settings, const struct address *to)
{
	__u32 zero = 0;
	struct mcp_settings *common = bpf_map_lookup_elem(&mcp_settings, &zero);
	struct mcp_path *path = bpf_map_lookup_elem(&mcp_paths, to);

	if (!common)
		return 0;
	*settings = *common;
	if (path) {
		settings->link_rate = path->link_rate;
		settings->marking_packets = path->marking_packets;
		settings->crowd_packets = path->crowd_packets;
	}
	return settings->link_rate > 0;
}

enum mcp_outcome { MCP_IN_TIME = 1, MCP_LATE = 2, MCP_GIVEN_UP = 3 };

struct mcp_event {
	__u64 size; /* bytes, as in the mark */
	__u64 remaining;
	__u64 elapsed_us;
	__u32 deadline_ms;
	__u32 outcome;
	__u16 source_port; /* host order */
	__u16 target_port;
	__u32 family;
	__u8 source[16]; /* IPv4: the first four */
	__u8 target[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENTS_BYTES);
} mcp_events SEC(".maps");

enum mcp_phase { MCP_NO_FLOW, MCP_FIRST_WINDOW, MCP_RUNNING, MCP_ALL_ACKED, MCP_ENDED_EARLY };

struct mcp {
	struct mcp_flow flow;
	__u64 acked_end;  /* the connection's acknowledged bytes at the end of the flow */
	__u64 started_us; /* the deadline counts from here */
	__u64 began_us;	  /* the current window of observation: its begin, and the stack's counters then */
	__u64 acked;
	__u32 window_end;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 mark;
	__u32 phase;
};

struct mcp_now { /* what the stack says of the connection */
	__u64 us; /* of the monotonic clock */
	__u64 acked; /* bytes */
	__u64 rtt_us;
	__u64 least_rtt_us;
	__u32 acked_to; /* sequence numbers: snd_una, snd_nxt */
	__u32 sent_to;
	__u32 delivered; /* segments */
	__u32 delivered_ce;
	__u32 mss;
};

static __always_inline int has_deadline_and_size(__u32 mark)
{
	return mark_size(mark) && mark_has_deadline(mark);
}

static __always_inline __u64 smoothed_rtt_us(__u32 srtt)
{
	return srtt ? srtt >> SRTT_SHIFT : FIRST_RTT_US;
}

static __always_inline __u64 queue_us_of(const struct mcp_now *now, const struct mcp *ca)
{
	return mcp_queue_us(now->rtt_us, now->least_rtt_us, ca->flow.rate, now->mss);
}

static __always_inline __u64 deadline_us_of(const struct mcp *ca)
{
	return (__u64)mark_high(ca->mark) * US_PER_MS;
}

static __always_inline __u64 remaining_of(const struct mcp_now *now, const struct mcp *ca)
{
	return ca->acked_end > now->acked ? ca->acked_end - now->acked : 0;
}

static __always_inline __u64 elapsed_us_of(const struct mcp_now *now, const struct mcp *ca)
{
	return now->us > ca->started_us ? now->us - ca->started_us : 0;
}

/* The size was rounded up to a KB. */
static __always_inline int is_all_acknowledged(const struct mcp_now *now, const struct mcp *ca)
{
	return remaining_of(now, ca) < (1 << MARK_KB_BITS);
}

static __always_inline int is_late(const struct mcp_now *now, const struct mcp *ca)
{
	return elapsed_us_of(now, ca) >= deadline_us_of(ca);
}

static __always_inline int is_under_way(const struct mcp *ca)
{
	return ca->phase == MCP_FIRST_WINDOW || ca->phase == MCP_RUNNING;
}

/* gamma with one segment more than remains: the stack sends whole segments, a gap of the pacing clock apart, and the last gap
 * must end before the deadline. */
static __always_inline __u64 expected_of(const struct mcp_now *now, __u64 remaining, __u64 left_us)
{
	return mcp_expected(remaining + now->mss, left_us, now->rtt_us);
}

static __always_inline void begin_window(const struct mcp_now *now, struct mcp *ca)
{
	ca->began_us = now->us;
	ca->acked = now->acked;
	ca->window_end = now->sent_to;
	ca->delivered = now->delivered;
	ca->delivered_ce = now->delivered_ce;
}

/* Begins a flow whose first data were sent `since_us` ago. */
static __always_inline void begin_flow_at(const struct mcp_now *now, struct mcp *ca, const struct mcp_settings *settings,
					  __u32 mark, __u64 since_us)
{
	struct mcp_window window = {};
	__u64 left_us;

	ca->mark = mark;
	ca->started_us = now->us - since_us;
	ca->acked_end = now->acked + (now->sent_to - now->acked_to) + mark_size(mark);
	window.rtt_us = now->rtt_us;
	window.mss = now->mss;
	left_us = mcp_time_left(settings, deadline_us_of(ca), since_us, window.rtt_us);
	window.expected = expected_of(now, mark_size(mark), left_us);
	mcp_start(settings, &ca->flow, &window);
	ca->phase = MCP_FIRST_WINDOW;
}

/* Once a round trip; false: the flow is given up. The first one does not adjust the rate: no data had been sent before it. */
static __always_inline int end_window(const struct mcp_now *now, struct mcp *ca, const struct mcp_settings *settings)
{
	__u64 elapsed_us = elapsed_us_of(now, ca), remaining = remaining_of(now, ca), left_us;
	struct mcp_window window = {};

	window.rtt_us = now->rtt_us;
	window.mss = now->mss;
	left_us = mcp_time_left(settings, deadline_us_of(ca), elapsed_us, window.rtt_us);
	window.expected = expected_of(now, remaining, left_us);
	window.elapsed_us = now->us - ca->began_us;
	window.acked = now->acked - ca->acked;
	window.delivered = now->delivered - ca->delivered;
	window.marked = now->delivered_ce - ca->delivered_ce;
	window.queue_us = queue_us_of(now, ca);
	window.chance_us = mcp_chance(settings, remaining, deadline_us_of(ca) - elapsed_us);
	if (ca->phase == MCP_RUNNING)
		mcp_step(settings, &ca->flow, &window);
	ca->phase = MCP_RUNNING;
	begin_window(now, ca);
	return !mcp_gives_up(settings, &ca->flow, &window, remaining, deadline_us_of(ca) - elapsed_us);
}

/* An event without addresses and ports, to be submitted; NULL: the ring is full. */
static __always_inline struct mcp_event *event_of(const struct mcp_now *now, const struct mcp *ca, __u32 outcome)
{
	struct mcp_event *event = bpf_ringbuf_reserve(&mcp_events, sizeof(*event), 0);

	if (!event)
		return NULL;
	__builtin_memset(event, 0, sizeof(*event));
	event->size = mark_size(ca->mark);
	event->remaining = remaining_of(now, ca);
	event->elapsed_us = elapsed_us_of(now, ca);
	event->deadline_ms = mark_high(ca->mark);
	event->outcome = outcome;
	return event;
}

#endif
