/* baton_mcp: a TCP congestion control for flows that have a deadline and a size (Karuna, SIGCOMM 2016, section 3).
 *
 * mcp.h computes the rate once a round trip. The stack paces at that rate, and the window only bounds the data in flight: the
 * rate that just meets a deadline is often less than a segment a round trip, which no window can express. The socket's mark
 * (flowmark.h) is read when data leave a connection without outstanding data. A flow begins there if the size of the previous
 * flow is acknowledged, or if the mark changed. Data beyond the size are a further flow with the same mark. The deadline
 * counts from the first data; on a new connection from one round trip earlier, for the handshake.
 *
 * A connection without a deadline, a size or ECN, or whose deadline has passed, switches to baton_dctcp for good and shares the
 * link like any other. A flow that is given up (termination) keeps its connection and sends one segment at a time, at most
 * SLOWEST a second, until it carries another mark. A lost segment halves the rate, a timeout sets it to the floor. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "dctcp_echo.h"
#include "flowmark.h"
#include "mcp.h"

#define US_PER_MS 1000
#define SRTT_SHIFT 3 /* tcp_sock.srtt_us holds eight times the time */
#define FIRST_RTT_US 1000
#define LEAST_CWND 2U
#define AF_INET 2
#define EVENTS_BYTES (64 << 10)

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mcp_settings);
} mcp_settings SEC(".maps");

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

enum mcp_phase { NO_FLOW, FIRST_WINDOW, RUNNING, ALL_ACKED, GIVEN_UP };

/* In icsk_ca_priv, which the kernel zeroes. */
struct mcp {
	struct mcp_flow flow;
	__u64 acked_end;  /* tcp_sock.bytes_acked at the end of the flow */
	__u64 started_us; /* the deadline counts from here */
	__u64 began_us;	  /* the current window of observation: its begin, and the stack's counters then */
	__u64 acked;
	__u32 window_end;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 mark;
	__u32 phase;
	struct echo echo;
};

static __always_inline struct mcp *state_of(struct sock *sk)
{
	return (struct mcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline int has_deadline_and_size(__u32 mark)
{
	return mark_size(mark) && mark_has_deadline(mark);
}

static __always_inline __u64 rtt_us_of(struct tcp_sock *tp)
{
	return tp->srtt_us ? tp->srtt_us >> SRTT_SHIFT : FIRST_RTT_US;
}

static __always_inline __u64 remaining_of(struct tcp_sock *tp, struct mcp *ca)
{
	return ca->acked_end > tp->bytes_acked ? ca->acked_end - tp->bytes_acked : 0;
}

static __always_inline __u64 elapsed_us_of(struct tcp_sock *tp, struct mcp *ca)
{
	return tp->tcp_mstamp > ca->started_us ? tp->tcp_mstamp - ca->started_us : 0;
}

/* The size was rounded up to a KB. */
static __always_inline int is_all_acknowledged(struct tcp_sock *tp, struct mcp *ca)
{
	return remaining_of(tp, ca) < (1 << MARK_KB_BITS);
}

static __always_inline void report_end(struct sock *sk, struct mcp *ca, __u32 outcome)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mcp_event *event = bpf_ringbuf_reserve(&mcp_events, sizeof(*event), 0);

	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->size = mark_size(ca->mark);
	event->remaining = remaining_of(tp, ca);
	event->elapsed_us = elapsed_us_of(tp, ca);
	event->deadline_ms = mark_high(ca->mark);
	event->outcome = outcome;
	event->family = sk->__sk_common.skc_family;
	event->source_port = sk->__sk_common.skc_num;
	event->target_port = bpf_ntohs(sk->__sk_common.skc_dport);
	if (event->family == AF_INET) {
		__builtin_memcpy(event->source, &sk->__sk_common.skc_rcv_saddr, 4);
		__builtin_memcpy(event->target, &sk->__sk_common.skc_daddr, 4);
	} else {
		BPF_CORE_READ_INTO(&event->source, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&event->target, sk, __sk_common.skc_v6_daddr);
	}
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void switch_to_dctcp(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	char dctcp[] = "baton_dctcp";

	if (state_of(sk)->phase != NO_FLOW)
		tp->snd_ssthresh = tp->snd_cwnd > LEAST_CWND ? tp->snd_cwnd : LEAST_CWND; /* no slow start after the switch */
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, dctcp, sizeof(dctcp)))
		switch_to_reno(sk);
}

static __always_inline void begin_window(struct tcp_sock *tp, struct mcp *ca)
{
	ca->began_us = tp->tcp_mstamp;
	ca->acked = tp->bytes_acked;
	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

static __always_inline void send_at(struct sock *sk, __u64 rate, __u32 segments)
{
	sk->sk_pacing_rate = rate;
	if (sk->sk_pacing_status == SK_PACING_NONE) /* the fq qdisc paces better than a timer of the socket */
		sk->sk_pacing_status = SK_PACING_NEEDED;
	((struct tcp_sock *)sk)->snd_cwnd = segments;
}

static __always_inline void send_at_rate(struct sock *sk, struct mcp *ca)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	send_at(sk, ca->flow.rate, mcp_segments(ca->flow.rate, rtt_us_of(tp), tp->mss_cache));
}

static __always_inline __u64 deadline_us_of(struct mcp *ca)
{
	return (__u64)mark_high(ca->mark) * US_PER_MS;
}

static __always_inline int is_late(struct tcp_sock *tp, struct mcp *ca)
{
	return elapsed_us_of(tp, ca) >= deadline_us_of(ca);
}

/* gamma with one segment more than remains: the stack sends whole segments, a gap of the pacing clock apart, and the last gap
 * must end before the deadline. */
static __always_inline __u64 expected_of(struct tcp_sock *tp, __u64 remaining, __u64 left_us)
{
	return mcp_expected(remaining + tp->mss_cache, left_us, rtt_us_of(tp));
}

static __always_inline void begin_flow(struct sock *sk, struct mcp *ca)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 zero = 0, first = ca->phase == NO_FLOW;
	struct mcp_settings *settings = bpf_map_lookup_elem(&mcp_settings, &zero);
	struct mcp_window window = {};
	__u64 left_us;

	ca->mark = sk->sk_mark;
	if (!settings || !has_deadline_and_size(ca->mark)) /* switches at the next acknowledgement */
		return;
	window.rtt_us = rtt_us_of(tp);
	window.mss = tp->mss_cache;
	ca->started_us = tp->tcp_mstamp - (first ? window.rtt_us : 0);
	ca->acked_end = tp->bytes_acked + (tp->snd_nxt - tp->snd_una) + mark_size(ca->mark);
	left_us = mcp_time_left(settings, deadline_us_of(ca), first ? window.rtt_us : 0, window.rtt_us);
	window.expected = expected_of(tp, mark_size(ca->mark), left_us);
	mcp_start(settings, &ca->flow, &window);
	ca->phase = FIRST_WINDOW;
	send_at_rate(sk, ca);
}

SEC("struct_ops")
void BPF_PROG(baton_mcp_init, struct sock *sk)
{
	echo_begin(sk, &state_of(sk)->echo);
	if (!in_handshake(sk) && without_ecn(sk))
		switch_to_reno(sk);
}

SEC("struct_ops")
void BPF_PROG(baton_mcp_release, struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/* Once a round trip. The first one does not adjust the rate: no data had been sent before it. */
static __always_inline void end_window(struct sock *sk, struct mcp *ca, struct mcp_settings *settings)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 elapsed_us = elapsed_us_of(tp, ca), remaining = remaining_of(tp, ca), left_us;
	struct mcp_window window = {};

	window.rtt_us = rtt_us_of(tp);
	window.mss = tp->mss_cache;
	left_us = mcp_time_left(settings, deadline_us_of(ca), elapsed_us, window.rtt_us);
	window.expected = expected_of(tp, remaining, left_us);
	window.elapsed_us = tp->tcp_mstamp - ca->began_us;
	window.acked = tp->bytes_acked - ca->acked;
	window.delivered = tp->delivered - ca->delivered;
	window.marked = tp->delivered_ce - ca->delivered_ce;
	if (ca->phase == RUNNING)
		mcp_step(settings, &ca->flow, &window);
	ca->phase = RUNNING;
	begin_window(tp, ca);
	if (mcp_gives_up(settings, &ca->flow, &window, remaining, deadline_us_of(ca) - elapsed_us)) {
		report_end(sk, ca, MCP_GIVEN_UP);
		ca->phase = GIVEN_UP;
		send_at(sk, (__u64)tp->mss_cache * SLOWEST, 1);
		return;
	}
	send_at_rate(sk, ca);
}

/* Called after each acknowledgement. With this function set, the stack leaves window and pacing to it in all states. */
SEC("struct_ops")
void BPF_PROG(baton_mcp_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mcp *ca = state_of(sk);
	__u32 zero = 0, mark = sk->sk_mark;
	struct mcp_settings *settings = bpf_map_lookup_elem(&mcp_settings, &zero);

	if (in_handshake(sk))
		return;
	if (without_ecn(sk)) {
		switch_to_reno(sk);
		return;
	}
	if (!settings || !has_deadline_and_size(mark)) {
		switch_to_dctcp(sk);
		return;
	}
	if (ca->phase == NO_FLOW)
		return;
	if (ca->mark != mark) {
		begin_flow(sk, ca);
		return;
	}
	if (ca->phase == GIVEN_UP)
		return;
	if (ca->phase != ALL_ACKED) {
		if (is_all_acknowledged(tp, ca)) {
			report_end(sk, ca, is_late(tp, ca) ? MCP_LATE : MCP_IN_TIME);
			ca->phase = ALL_ACKED;
		} else if (is_late(tp, ca)) {
			report_end(sk, ca, MCP_LATE);
			switch_to_dctcp(sk);
			return;
		} else if (!is_after(ca->window_end, tp->snd_una) || ca->phase == FIRST_WINDOW) {
			end_window(sk, ca, settings);
		}
	}
	if (ca->phase == ALL_ACKED && !remaining_of(tp, ca) && is_after(tp->write_seq, tp->snd_una))
		begin_flow(sk, ca);
}

SEC("struct_ops")
void BPF_PROG(baton_mcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct mcp *ca = state_of(sk);

	echo_event(sk, &ca->echo, event);
	if (event == CA_EVENT_TX_START && (ca->phase == NO_FLOW || ca->phase == ALL_ACKED || ca->mark != sk->sk_mark))
		begin_flow(sk, ca);
}

/* The next mcp_step keeps the rate at the floor or above. */
SEC("struct_ops")
void BPF_PROG(baton_mcp_set_state, struct sock *sk, __u8 state)
{
	struct mcp *ca = state_of(sk);

	if (ca->phase != FIRST_WINDOW && ca->phase != RUNNING)
		return;
	if (state == TCP_CA_Recovery)
		ca->flow.rate >>= 1;
	else if (state == TCP_CA_Loss)
		ca->flow.rate = (__u64)((struct tcp_sock *)sk)->mss_cache * SLOWEST;
	else
		return;
	send_at_rate(sk, ca);
}

SEC("struct_ops")
__u32 BPF_PROG(baton_mcp_ssthresh, struct sock *sk)
{
	__u32 cwnd = ((struct tcp_sock *)sk)->snd_cwnd;

	return cwnd > LEAST_CWND ? cwnd : LEAST_CWND;
}

SEC("struct_ops")
__u32 BPF_PROG(baton_mcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops baton_mcp = {
	.init = (void *)baton_mcp_init,
	.release = (void *)baton_mcp_release,
	.cong_control = (void *)baton_mcp_cong_control,
	.cwnd_event = (void *)baton_mcp_cwnd_event,
	.set_state = (void *)baton_mcp_set_state,
	.ssthresh = (void *)baton_mcp_ssthresh,
	.undo_cwnd = (void *)baton_mcp_undo_cwnd,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "baton_mcp",
};

char LICENSE[] SEC("license") = "GPL";
