/* MCP for kernels without struct_ops (no JIT, or before Linux 5.6): at a cgroup, once a round trip, beside the kernel's dctcp.
 *
 * The stack calls at BPF_SOCK_OPS_RTT_CB, when data sent since the last call are acknowledged. The program counts marks and
 * acknowledged bytes, computes the rate (mcp.h) and sets it as the connection's highest pacing rate; it clamps the window to what
 * the rate needs. dctcp, which the connection keeps, reduces its window where there are marks: so the clamp has room for the
 * deepest reduction, and the stack returns to it in slow start, since the clamp is the threshold of slow start, too.
 *
 * A connection without a size or ECN, or towards a gate that waits, is left to dctcp; one past its deadline returns to it until
 * it carries another mark. A flow that is given up sends SLOWEST segments a second. The stack calls neither at a flow's first
 * data nor at its last acknowledgement: a flow begins with its connection (or at the first acknowledgement that shows it), and
 * its end is seen a round trip later, or when the connection closes; by then the planned end counts, if that is earlier. */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "flowmark.h"
#include "gated.h"
#include "mcp.h"
#include "mcp_flow.h"

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define ECN_OK 1
#define NS_PER_US 1000
#define ANY_RATE 0xffffffffU
#define MOST_RATE (ANY_RATE - 1)
#define ANY_WINDOW 0x7fffffff
#define OUR_CALLS (BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG | BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG)

struct mcp_called {
	struct mcp flow;
	__u64 planned_us; /* when the last byte will be acknowledged at this rate */
	__u32 halved_to;  /* lost segments up to here halved the rate already */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mcp_called);
} connections SEC(".maps");

static __always_inline int is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static __always_inline struct mcp_now now_of(struct bpf_tcp_sock *tcp)
{
	return (struct mcp_now){
		.us = bpf_ktime_get_ns() / NS_PER_US,
		.acked = tcp->bytes_acked,
		.rtt_us = smoothed_rtt_us(tcp->srtt_us),
		.least_rtt_us = tcp->rtt_min,
		.acked_to = tcp->snd_una,
		.sent_to = tcp->snd_nxt,
		.delivered = tcp->delivered,
		.delivered_ce = tcp->delivered_ce,
		.mss = tcp->mss_cache,
	};
}

static __always_inline void send_at(struct bpf_sock_ops *event, __u64 rate, __u32 segments)
{
	__u32 most = mcp_min(rate, MOST_RATE);

	bpf_setsockopt(event, SOL_SOCKET, SO_MAX_PACING_RATE, &most, sizeof(most));
	bpf_setsockopt(event, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &segments, sizeof(segments));
}

/* Twice what baton_mcp allows: dctcp halves the window where all segments are marked. Not in a crowd: there it shall be small. */
static __always_inline __u32 window_of(const struct mcp_now *now, const struct mcp *ca, const struct mcp_settings *settings)
{
	__u32 segments = mcp_in_flight(settings, ca->flow.rate, now->rtt_us, queue_us_of(now, ca), now->mss);

	return settings->crowd_packets && queue_us_of(now, ca) > mcp_crowd_us(settings, now->mss) ? segments : 2 * segments;
}

static __always_inline void send_at_rate(struct bpf_sock_ops *event, const struct mcp_now *now, struct mcp_called *connection,
					 const struct mcp_settings *settings)
{
	struct mcp *ca = &connection->flow;

	connection->planned_us = now->us + now->rtt_us + remaining_of(now, ca) * US_PER_S / (ca->flow.rate ? ca->flow.rate : 1);
	send_at(event, ca->flow.rate, window_of(now, ca, settings));
}

static __always_inline void leave_to_dctcp(struct bpf_sock_ops *event)
{
	__u32 rate = ANY_RATE, window = ANY_WINDOW;

	bpf_setsockopt(event, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
	bpf_setsockopt(event, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &window, sizeof(window));
}

static __always_inline int is_to_a_gate(struct bpf_sock_ops *event)
{
	__u32 ip6[4] = { event->remote_ip6[0], event->remote_ip6[1], event->remote_ip6[2], event->remote_ip6[3] };

	return is_gated(event->family, event->remote_ip4, ip6);
}

static __always_inline void report_end(struct bpf_sock_ops *event, const struct mcp_now *now, struct mcp *ca, __u32 outcome)
{
	struct mcp_event *end = event_of(now, ca, outcome);
	__u32 *source, *target;

	if (!end)
		return;
	source = (__u32 *)end->source;
	target = (__u32 *)end->target;
	end->family = event->family;
	end->source_port = event->local_port;
	end->target_port = bpf_ntohl(event->remote_port);
	if (end->family == AF_INET) {
		source[0] = event->local_ip4;
		target[0] = event->remote_ip4;
	} else {
		source[0] = event->local_ip6[0];
		source[1] = event->local_ip6[1];
		source[2] = event->local_ip6[2];
		source[3] = event->local_ip6[3];
		target[0] = event->remote_ip6[0];
		target[1] = event->remote_ip6[1];
		target[2] = event->remote_ip6[2];
		target[3] = event->remote_ip6[3];
	}
	bpf_ringbuf_submit(end, 0);
}

/* If all of the flow is acknowledged: reports how it ended. Data of the next flow may be on their way already. */
static __always_inline void end_if_acknowledged(struct bpf_sock_ops *event, const struct mcp_now *now,
						struct mcp_called *connection)
{
	struct mcp_now then = *now;
	struct mcp *ca = &connection->flow;

	if (!is_under_way(ca) || !is_all_acknowledged(now, ca))
		return;
	then.us = mcp_min(now->us, connection->planned_us);
	report_end(event, &then, ca, is_late(&then, ca) ? MCP_LATE : MCP_IN_TIME);
	ca->phase = MCP_ALL_ACKED;
	if (now->sent_to == now->acked_to)
		ca->acked_end = now->acked; /* the mark had rounded the size up */
}

static __always_inline void begin_connection(struct bpf_sock_ops *event, struct bpf_sock *sock, struct bpf_tcp_sock *tcp,
					     struct mcp_settings *settings)
{
	struct mcp_called *connection;
	struct mcp_now now = now_of(tcp);
	__u32 mark = sock->mark, segments;

	if (event->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_RTT_CB_FLAG || !(tcp->ecn_flags & ECN_OK))
		return; /* another process handles it, or no mark would be echoed */
	connection = bpf_sk_storage_get(&connections, sock, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!connection)
		return;
	bpf_sock_ops_cb_flags_set(event, event->bpf_sock_ops_cb_flags | OUR_CALLS);
	connection->flow.mark = mark;
	connection->halved_to = now.acked_to;
	if (!has_deadline_and_size(mark) || is_to_a_gate(event))
		return;
	begin_flow_at(&now, &connection->flow, settings, mark, now.rtt_us);
	send_at_rate(event, &now, connection, settings);
	segments = window_of(&now, &connection->flow, settings);
	bpf_setsockopt(event, SOL_TCP, TCP_BPF_IW, &segments, sizeof(segments));
}

/* A flow on an open connection, seen a round trip after its first data were sent; `acked_before` bytes are older. */
static __always_inline void begin_again(struct bpf_sock_ops *event, const struct mcp_now *now, struct mcp_called *connection,
					struct mcp_settings *settings, __u32 mark, __u64 acked_before)
{
	struct mcp *ca = &connection->flow;
	int ours = has_deadline_and_size(mark) && !is_to_a_gate(event);

	if (ours) {
		begin_flow_at(now, ca, settings, mark, event->args[0] ? event->args[0] : now->rtt_us); /* args: Linux 6.10 */
		ca->acked_end = acked_before + mark_size(mark);
		connection->halved_to = now->acked_to;
		begin_window(now, ca);
		send_at_rate(event, now, connection, settings);
		return;
	}
	if (ca->phase != MCP_NO_FLOW)
		leave_to_dctcp(event);
	ca->mark = mark;
	ca->phase = MCP_NO_FLOW;
}

static __always_inline void round_trip(struct bpf_sock_ops *event, struct bpf_sock *sock, struct bpf_tcp_sock *tcp,
				       struct mcp_called *connection, struct mcp_settings *settings)
{
	struct mcp *ca = &connection->flow;
	struct mcp_now now = now_of(tcp);
	__u64 first_us;

	end_if_acknowledged(event, &now, connection);
	if (ca->mark != sock->mark) {
		begin_again(event, &now, connection, settings, sock->mark, now.acked);
		return;
	}
	if (ca->phase == MCP_ALL_ACKED) {
		if (now.sent_to != now.acked_to || now.acked > ca->acked_end)
			begin_again(event, &now, connection, settings, ca->mark, ca->acked_end);
		return;
	}
	if (!is_under_way(ca))
		return;
	if (ca->phase == MCP_FIRST_WINDOW && event->args[0]) { /* data may have begun long after the connection */
		first_us = now.us - event->args[0] - now.rtt_us;
		if (first_us > ca->started_us)
			ca->started_us = first_us;
	}
	if (is_late(&now, ca)) {
		report_end(event, &now, ca, MCP_LATE);
		ca->phase = MCP_ENDED_EARLY;
		leave_to_dctcp(event);
	} else if (end_window(&now, ca, settings)) {
		send_at_rate(event, &now, connection, settings);
	} else {
		report_end(event, &now, ca, MCP_GIVEN_UP);
		ca->phase = MCP_ENDED_EARLY;
		send_at(event, (__u64)now.mss * SLOWEST, 1);
	}
}

/* As baton_mcp: a lost segment halves the rate, once for all that were sent with it; a timeout sets it to one
 * segment a round trip. */
static __always_inline void lost(struct bpf_sock_ops *event, struct bpf_tcp_sock *tcp, struct mcp_called *connection,
				 const struct mcp_settings *settings)
{
	struct mcp *ca = &connection->flow;
	struct mcp_now now = now_of(tcp);

	if (!is_under_way(ca))
		return;
	if (event->op == BPF_SOCK_OPS_RTO_CB)
		ca->flow.rate = mcp_restart(settings, now.rtt_us, now.mss);
	else if (!is_after(connection->halved_to, now.acked_to))
		ca->flow.rate >>= 1;
	else
		return;
	connection->halved_to = now.sent_to;
	send_at_rate(event, &now, connection, settings);
}

SEC("sockops")
int mcp_callbacks(struct bpf_sock_ops *event)
{
	struct bpf_sock *sock = event->sk; /* loaded once: the verifier would treat a second load as another pointer */
	__u32 op = event->op, ip6[4] = { event->remote_ip6[0], event->remote_ip6[1], event->remote_ip6[2], event->remote_ip6[3] };
	struct address to = address_of(event->family, event->remote_ip4, ip6);
	struct mcp_settings settings;
	struct mcp_called *connection;
	struct bpf_tcp_sock *tcp;
	struct mcp_now now;

	switch (op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_RTO_CB:
	case BPF_SOCK_OPS_RETRANS_CB:
	case BPF_SOCK_OPS_STATE_CB:
		break;
	default:
		return 1;
	}
	if (!sock || !settings_towards(&settings, &to))
		return 1;
	tcp = bpf_tcp_sock(sock);
	if (!tcp)
		return 1;
	if (op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		begin_connection(event, sock, tcp, &settings);
		return 1;
	}
	connection = bpf_sk_storage_get(&connections, sock, 0, 0);
	if (!connection)
		return 1;
	if (op == BPF_SOCK_OPS_RTT_CB) {
		round_trip(event, sock, tcp, connection, &settings);
	} else if (op == BPF_SOCK_OPS_STATE_CB) {
		now = now_of(tcp);
		end_if_acknowledged(event, &now, connection);
	} else {
		lost(event, tcp, connection, &settings);
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
