/* baton_dctcp: DCTCP (RFC 8257) as a TCP congestion control. Sender's window and receiver's echo of marks.
 *
 * Alpha is in units of 1/ALPHA_ONE, g is 1/16 (RFC 8257, section 4.2). F counts segments, not the RFC's bytes: the stack
 * keeps delivered and delivered_ce, and they differ by the last segment of a write only. The stack itself calls ssthresh once a
 * window for ECE (it enters CWR until what was outstanding is acknowledged) and grows the window as RFC 5681 does.
 * Without ECN at the other end nothing would say that a packet was marked, so the connection goes over to reno. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define ALPHA_BITS 10
#define ALPHA_ONE (1U << ALPHA_BITS)
#define GAIN_SHIFT 4
#define LEAST_CWND 2U
#define TCP_CONG_NEEDS_ECN 2
#define TCP_ECN_NEGOTIATED (1 | 16) /* TCP_ECN_MODE_RFC3168, TCP_ECN_MODE_ACCECN */
#define TCP_ECN_DEMAND_CWR 4	    /* our acknowledgements carry ECE */
#define ICSK_ACK_TIMER 2	    /* an acknowledgement is delayed */
#define ICSK_ACK_NOW 16
#define SOL_TCP 6
#define TCP_CONGESTION 13

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* In icsk_ca_priv. The kernel zeroes it, and may call in_ack_event (for the SYN-ACK) before init. */
struct dctcp {
	__u32 started;	    /* the first window of observation has begun */
	__u32 alpha;	    /* estimated fraction of marked segments */
	__u32 window_end;   /* DCTCP.WindowEnd */
	__u32 delivered;    /* the stack's counters when the window began */
	__u32 delivered_ce;
	__u32 ce;	    /* DCTCP.CE: the last segment received was marked */
	__u32 acked_to;	    /* what was received before it */
};

static __always_inline struct dctcp *state_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline int is_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

static __always_inline int without_ecn(struct sock *sk)
{
	return !(((struct tcp_sock *)sk)->ecn_flags & TCP_ECN_NEGOTIATED);
}

static __always_inline int in_handshake(struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state == TCP_CLOSE || state == TCP_LISTEN || state == TCP_SYN_SENT;
}

static __always_inline void go_over_to_reno(struct sock *sk)
{
	char reno[] = "reno";

	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno)); /* also takes ECT off what is sent */
}

static __always_inline void begin_window(struct tcp_sock *tp, struct dctcp *ca)
{
	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

SEC("struct_ops")
void BPF_PROG(baton_dctcp_init, struct sock *sk)
{
	struct dctcp *ca = state_of(sk);

	ca->alpha = ALPHA_ONE;
	ca->acked_to = ((struct tcp_sock *)sk)->rcv_nxt;
	if (!in_handshake(sk) && without_ecn(sk))
		go_over_to_reno(sk);
}

/* RFC 8257, section 3.3, steps 1 to 8: at the end of a window, alpha moves by g towards the window's fraction of marks. */
SEC("struct_ops")
void BPF_PROG(baton_dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u32 delivered, marked, fraction;

	if (!ca->started) {
		if (in_handshake(sk))
			return;
		if (without_ecn(sk)) { /* chosen before the handshake, when it could not be known */
			go_over_to_reno(sk);
			return;
		}
		ca->started = 1;
		begin_window(tp, ca);
		return;
	}
	if (!is_after(tp->snd_una, ca->window_end))
		return;
	delivered = tp->delivered - ca->delivered;
	marked = tp->delivered_ce - ca->delivered_ce;
	if (delivered) {
		fraction = ((__u64)marked << ALPHA_BITS) / delivered;
		if (fraction > ALPHA_ONE)
			fraction = ALPHA_ONE;
		/* Both rounded the way they move, so that alpha reaches 0 and ALPHA_ONE. */
		if (fraction >= ca->alpha)
			ca->alpha += (fraction - ca->alpha + (1 << GAIN_SHIFT) - 1) >> GAIN_SHIFT;
		else
			ca->alpha -= (ca->alpha - fraction + (1 << GAIN_SHIFT) - 1) >> GAIN_SHIFT;
	}
	begin_window(tp, ca);
}

/* RFC 8257, section 3.3, step 9: cwnd * (1 - alpha / 2). */
SEC("struct_ops")
__u32 BPF_PROG(baton_dctcp_ssthresh, struct sock *sk)
{
	__u32 cwnd = ((struct tcp_sock *)sk)->snd_cwnd;
	__u32 less = cwnd - (__u32)(((__u64)cwnd * state_of(sk)->alpha) >> (ALPHA_BITS + 1));

	return less > LEAST_CWND ? less : LEAST_CWND;
}

/* A lost segment is answered as RFC 5681 does, whatever alpha is (RFC 8257, section 3.5). */
static __always_inline void halve(struct tcp_sock *tp)
{
	__u32 half = tp->snd_cwnd >> 1;

	tp->snd_ssthresh = half > LEAST_CWND ? half : LEAST_CWND;
}

SEC("struct_ops")
void BPF_PROG(baton_dctcp_set_state, struct sock *sk, __u8 state)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;

	if (state == TCP_CA_Recovery && BPF_CORE_READ_BITFIELD(connection, icsk_ca_state) != TCP_CA_Recovery)
		halve((struct tcp_sock *)sk);
}

/* RFC 8257, section 3.2: ECE says whether the segments acknowledged were marked. When the mark changes, what came before is
 * acknowledged at once, with the old mark. */
static __always_inline void received(struct sock *sk, __u32 ce)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);

	if (ca->ce != ce) {
		if (connection->icsk_ack.pending & ICSK_ACK_TIMER) {
			if (ca->ce)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			bpf_tcp_send_ack(tp, ca->acked_to);
		}
		connection->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->ce = ce;
	ca->acked_to = tp->rcv_nxt;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops")
void BPF_PROG(baton_dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_ECN_IS_CE)
		received(sk, 1);
	else if (event == CA_EVENT_ECN_NO_CE)
		received(sk, 0);
	else if (event == CA_EVENT_LOSS)
		halve((struct tcp_sock *)sk);
}

SEC("struct_ops")
void BPF_PROG(baton_dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(baton_dctcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops baton_dctcp = {
	.init = (void *)baton_dctcp_init,
	.in_ack_event = (void *)baton_dctcp_in_ack_event,
	.ssthresh = (void *)baton_dctcp_ssthresh,
	.set_state = (void *)baton_dctcp_set_state,
	.cwnd_event = (void *)baton_dctcp_cwnd_event,
	.cong_avoid = (void *)baton_dctcp_cong_avoid,
	.undo_cwnd = (void *)baton_dctcp_undo_cwnd,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "baton_dctcp",
};

char LICENSE[] SEC("license") = "GPL";
