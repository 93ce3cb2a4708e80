/* baton_dctcp: DCTCP (RFC 8257) as a TCP congestion control: the sender's window and the receiver's echo of marks.
 *
 * Alpha is in units of 1/ALPHA_ONE, g is 1/16 (RFC 8257, section 4.2). F counts segments where the RFC counts bytes: the stack
 * keeps delivered and delivered_ce, and the two counts differ only by the last segment of a write. On ECE the stack enters CWR
 * until the outstanding data are acknowledged; the window grows as in RFC 5681.
 * Without ECN at the other end no mark would be echoed, so the connection switches to reno.
 *
 * cong_control sets the window, not the stack from the value of ssthresh(): under load the kernel skips some calls of
 * struct_ops programs (seen on Linux 6.18, a few in 100,000 acknowledgements, not counted as misses), and then uses a word of
 * its stack as the returned value: a window of 2^31 segments. The next call of cong_control makes up for a skipped one. */
#include "kernel.h"
#include "kernel_tcp.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "dctcp_echo.h"

#define ALPHA_BITS 10
#define ALPHA_ONE (1U << ALPHA_BITS)
#define GAIN_SHIFT 4
#define LEAST_CWND 2U
#define INITIAL_CWND 10U
#define MOST_CWND (1U << 20)
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define US_PER_S 1000000ULL
#define SRTT_SHIFT 3

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* In icsk_ca_priv. The kernel zeroes it, and may call in_ack_event (for the SYN-ACK) before init. */
struct dctcp {
	__u32 started;	    /* the first window of observation has begun */
	__u32 alpha;	    /* estimated fraction of marked segments */
	__u32 window_end;   /* DCTCP.WindowEnd */
	__u32 delivered;    /* the stack's counters at the begin of the window */
	__u32 delivered_ce;
	__u32 counted;	    /* tcp_sock.delivered at the last acknowledgement */
	__u32 cwnd;	    /* the window after it */
	__u32 ssthresh;
	__u32 reduced;	    /* the stack's state (CWR, Recovery, Loss) for which the window was reduced, or 0 */
	__u32 reduced_to;   /* tcp_sock.high_seq then: where that state ends */
	struct echo echo;
};

static __always_inline struct dctcp *state_of(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
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
	ca->ssthresh = ((struct tcp_sock *)sk)->snd_ssthresh;
	ca->counted = ((struct tcp_sock *)sk)->delivered;
	echo_begin(sk, &ca->echo);
	if (!in_handshake(sk) && without_ecn(sk))
		switch_to_reno(sk);
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
		if (without_ecn(sk)) { /* chosen before the handshake, when ECN was not negotiated yet */
			switch_to_reno(sk);
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
		/* Both steps round away from zero, so that alpha reaches 0 and ALPHA_ONE. */
		if (fraction >= ca->alpha)
			ca->alpha += (fraction - ca->alpha + (1 << GAIN_SHIFT) - 1) >> GAIN_SHIFT;
		else
			ca->alpha -= (ca->alpha - fraction + (1 << GAIN_SHIFT) - 1) >> GAIN_SHIFT;
	}
	begin_window(tp, ca);
}

static __always_inline __u32 at_least(__u32 cwnd)
{
	return cwnd > LEAST_CWND ? cwnd : LEAST_CWND;
}

/* Restores ssthresh and the window if the kernel skipped a call meanwhile. */
static __always_inline void repair_skipped_calls(struct tcp_sock *tp, struct dctcp *ca)
{
	if (!ca->ssthresh)
		ca->ssthresh = TCP_INFINITE_SSTHRESH;
	tp->snd_ssthresh = ca->ssthresh;
	if (tp->snd_cwnd > MOST_CWND)
		tp->snd_cwnd = at_least(ca->cwnd);
}

/* RFC 8257, section 3.3, step 9: cwnd * (1 - alpha / 2), once for all marks of a window (the stack's state CWR). A lost segment
 * halves the window as in RFC 5681, for any alpha (RFC 8257, section 3.5). After a timeout the stack itself has set cwnd. */
static __always_inline void reduce(struct tcp_sock *tp, struct dctcp *ca, __u8 state)
{
	__u32 cwnd = state == TCP_CA_Loss ? ca->cwnd : tp->snd_cwnd, less = cwnd >> 1;

	if (state == TCP_CA_CWR)
		less = cwnd - (__u32)(((__u64)cwnd * ca->alpha) >> (ALPHA_BITS + 1));
	ca->ssthresh = tp->snd_ssthresh = at_least(less);
	if (state != TCP_CA_Loss)
		tp->snd_cwnd = ca->ssthresh;
}

/* Once each time the stack enters a state. One acknowledgement may leave a state and enter it again, which high_seq shows. A
 * timeout during the recovery of lost segments does not reduce again. */
static __always_inline int needs_reduction(struct tcp_sock *tp, struct dctcp *ca, __u8 state)
{
	if (state < TCP_CA_CWR)
		return 0;
	if (state == TCP_CA_Loss)
		return ca->reduced < TCP_CA_Recovery;
	return ca->reduced < state || ca->reduced_to != tp->high_seq;
}

/* As tcp_update_pacing_rate, which the stack leaves to cong_control: TSQ and the size of super-packets depend on it. */
static __always_inline void set_pacing_rate(struct sock *sk, struct tcp_sock *tp)
{
	__u32 most = tp->snd_cwnd > tp->packets_out ? tp->snd_cwnd : tp->packets_out;
	__u32 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	__u64 rate = (__u64)tp->mss_cache * most * (US_PER_S << SRTT_SHIFT) / 100 * percent;

	if (tp->srtt_us)
		rate /= tp->srtt_us;
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

/* Called after each acknowledgement, in all states. */
SEC("struct_ops")
void BPF_PROG(baton_dctcp_cong_control, struct sock *sk)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u8 state = BPF_CORE_READ_BITFIELD(connection, icsk_ca_state);
	__u32 acked = tp->delivered - ca->counted;

	if (in_handshake(sk))
		return;
	ca->counted = tp->delivered;
	repair_skipped_calls(tp, ca);
	if (needs_reduction(tp, ca, state))
		reduce(tp, ca, state);
	ca->reduced = state >= TCP_CA_CWR ? state : 0;
	ca->reduced_to = tp->high_seq;
	if (state != TCP_CA_CWR && state != TCP_CA_Recovery)
		tcp_reno_cong_avoid(sk, 0, acked);
	ca->cwnd = tp->snd_cwnd;
	set_pacing_rate(sk, tp);
}

/* RFC 5681, section 4.1: after a retransmission timeout without sending, the initial window. */
static __always_inline void restart_after_idle(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *ca = state_of(sk);
	__u32 idle = (__u32)bpf_jiffies64() - tp->lsndtime, most = tp->snd_cwnd - (tp->snd_cwnd >> 2);

	if (!ca->started || idle <= ((struct inet_connection_sock *)sk)->icsk_rto || tp->snd_cwnd <= INITIAL_CWND)
		return;
	ca->ssthresh = ca->ssthresh > most ? ca->ssthresh : most;
	ca->cwnd = tp->snd_cwnd = INITIAL_CWND;
}

SEC("struct_ops")
void BPF_PROG(baton_dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	echo_event(sk, &state_of(sk)->echo, event);
	if (event == CA_EVENT_TX_START)
		restart_after_idle(sk);
}

/* Only for the stack's own accounting: cong_control sets the value that counts. */
SEC("struct_ops")
__u32 BPF_PROG(baton_dctcp_ssthresh, struct sock *sk)
{
	return at_least(((struct tcp_sock *)sk)->snd_cwnd);
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
	.cong_control = (void *)baton_dctcp_cong_control,
	.ssthresh = (void *)baton_dctcp_ssthresh,
	.cwnd_event = (void *)baton_dctcp_cwnd_event,
	.undo_cwnd = (void *)baton_dctcp_undo_cwnd,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "baton_dctcp",
};

char LICENSE[] SEC("license") = "GPL";
