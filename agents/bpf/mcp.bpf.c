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
 * SLOWEST a second, until it carries another mark. A lost segment halves the rate, a timeout sets it to one segment a round trip. */
#include "kernel.h"
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "address.h"
#include "dctcp_echo.h"
#include "flowmark.h"
#include "mcp.h"
#include "mcp_flow.h"

#define LEAST_CWND 2U

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* In icsk_ca_priv, which the kernel zeroes. */
struct mcp_connection {
	struct mcp flow;
	struct echo echo;
};

static __always_inline struct mcp_connection *connection_of(struct sock *sk)
{
	return (struct mcp_connection *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline struct mcp *state_of(struct sock *sk)
{
	return &connection_of(sk)->flow;
}

static __always_inline struct mcp_now now_of(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return (struct mcp_now){
		.us = tp->tcp_mstamp,
		.acked = tp->bytes_acked,
		.rtt_us = smoothed_rtt_us(tp->srtt_us),
		.least_rtt_us = tp->rtt_min.s[0].v,
		.acked_to = tp->snd_una,
		.sent_to = tp->snd_nxt,
		.delivered = tp->delivered,
		.delivered_ce = tp->delivered_ce,
		.mss = tp->mss_cache,
	};
}

static __always_inline void report_end(struct sock *sk, const struct mcp_now *now, struct mcp *ca, __u32 outcome)
{
	struct mcp_event *event = event_of(now, ca, outcome);

	if (!event)
		return;
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

	if (state_of(sk)->phase != MCP_NO_FLOW)
		tp->snd_ssthresh = tp->snd_cwnd > LEAST_CWND ? tp->snd_cwnd : LEAST_CWND; /* no slow start after the switch */
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, dctcp, sizeof(dctcp)))
		switch_to_reno(sk);
}

static __always_inline int settings_of(struct sock *sk, struct mcp_settings *settings)
{
	__u32 ip6[4] = {};
	struct address to;

	if (sk->__sk_common.skc_family != AF_INET)
		BPF_CORE_READ_INTO(&ip6, sk, __sk_common.skc_v6_daddr);
	to = address_of(sk->__sk_common.skc_family, sk->__sk_common.skc_daddr, ip6);
	return settings_towards(settings, &to);
}

static __always_inline void send_at(struct sock *sk, __u64 rate, __u32 segments)
{
	sk->sk_pacing_rate = rate;
	if (sk->sk_pacing_status == SK_PACING_NONE) /* the fq qdisc paces better than a timer of the socket */
		sk->sk_pacing_status = SK_PACING_NEEDED;
	((struct tcp_sock *)sk)->snd_cwnd = segments;
}

static __always_inline void send_at_rate(struct sock *sk, const struct mcp_now *now, struct mcp *ca,
					 const struct mcp_settings *settings)
{
	send_at(sk, ca->flow.rate, mcp_in_flight(settings, ca->flow.rate, now->rtt_us, queue_us_of(now, ca), now->mss));
}

static __always_inline void begin_flow(struct sock *sk, struct mcp *ca)
{
	struct mcp_now now = now_of(sk);
	__u32 mark = sk->sk_mark;
	struct mcp_settings settings;

	ca->mark = mark;
	if (!has_deadline_and_size(mark) || !settings_of(sk, &settings)) /* switches at the next acknowledgement */
		return;
	begin_flow_at(&now, ca, &settings, mark, ca->phase == MCP_NO_FLOW ? now.rtt_us : 0);
	send_at_rate(sk, &now, ca, &settings);
}

SEC("struct_ops")
void BPF_PROG(baton_mcp_init, struct sock *sk)
{
	echo_begin(sk, &connection_of(sk)->echo);
	if (!in_handshake(sk) && without_ecn(sk))
		switch_to_reno(sk);
}

SEC("struct_ops")
void BPF_PROG(baton_mcp_release, struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
}

/* Called after each acknowledgement. With this function set, the stack leaves window and pacing to it in all states. */
SEC("struct_ops")
void BPF_PROG(baton_mcp_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mcp *ca = state_of(sk);
	__u32 mark = sk->sk_mark;
	struct mcp_settings settings;
	struct mcp_now now;

	if (in_handshake(sk))
		return;
	if (without_ecn(sk)) {
		switch_to_reno(sk);
		return;
	}
	if (!has_deadline_and_size(mark)) {
		switch_to_dctcp(sk);
		return;
	}
	if (ca->phase == MCP_NO_FLOW)
		return;
	if (ca->mark != mark) {
		begin_flow(sk, ca);
		return;
	}
	if (ca->phase == MCP_ENDED_EARLY)
		return;
	now = now_of(sk);
	if (ca->phase != MCP_ALL_ACKED) {
		if (is_all_acknowledged(&now, ca)) {
			report_end(sk, &now, ca, is_late(&now, ca) ? MCP_LATE : MCP_IN_TIME);
			ca->phase = MCP_ALL_ACKED;
		} else if (is_late(&now, ca)) {
			report_end(sk, &now, ca, MCP_LATE);
			switch_to_dctcp(sk);
			return;
		} else if (!is_after(ca->window_end, now.acked_to) || ca->phase == MCP_FIRST_WINDOW) {
			if (!settings_of(sk, &settings))
				return;
			if (end_window(&now, ca, &settings)) {
				send_at_rate(sk, &now, ca, &settings);
			} else {
				report_end(sk, &now, ca, MCP_GIVEN_UP);
				ca->phase = MCP_ENDED_EARLY;
				send_at(sk, (__u64)now.mss * SLOWEST, 1);
			}
		}
	}
	if (ca->phase == MCP_ALL_ACKED && !remaining_of(&now, ca) && is_after(tp->write_seq, now.acked_to))
		begin_flow(sk, ca);
}

SEC("struct_ops")
void BPF_PROG(baton_mcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct mcp *ca = state_of(sk);

	echo_event(sk, &connection_of(sk)->echo, event);
	if (event == CA_EVENT_TX_START && (ca->phase == MCP_NO_FLOW || ca->phase == MCP_ALL_ACKED || ca->mark != sk->sk_mark))
		begin_flow(sk, ca);
}

/* The next mcp_step keeps the rate at the floor or above. */
SEC("struct_ops")
void BPF_PROG(baton_mcp_set_state, struct sock *sk, __u8 state)
{
	struct mcp *ca = state_of(sk);
	struct mcp_now now = now_of(sk);
	struct mcp_settings settings;

	if (!is_under_way(ca) || !settings_of(sk, &settings))
		return;
	if (state == TCP_CA_Recovery)
		ca->flow.rate >>= 1;
	else if (state == TCP_CA_Loss)
		ca->flow.rate = mcp_restart(&settings, now.rtt_us, now.mss);
	else
		return;
	send_at_rate(sk, &now, ca, &settings);
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
