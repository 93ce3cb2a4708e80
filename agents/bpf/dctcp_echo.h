/* Shared by Baton's congestion controls: the receiver's echo of marks (RFC 8257, section 3.2), and the switch of a connection
 * to another congestion control. Include it after kernel.h and the helpers. */
#ifndef BATON_DCTCP_ECHO_H
#define BATON_DCTCP_ECHO_H

#define TCP_CONG_NEEDS_ECN 2
#define TCP_ECN_NEGOTIATED (1 | 16) /* TCP_ECN_MODE_RFC3168, TCP_ECN_MODE_ACCECN */
#define TCP_ECN_DEMAND_CWR 4	    /* this end's acknowledgements carry ECE */
#define ICSK_ACK_TIMER 2	    /* an acknowledgement is delayed */
#define ICSK_ACK_NOW 16
#define SOL_TCP 6
#define TCP_CONGESTION 13

struct echo {
	__u32 ce;	/* DCTCP.CE: the last segment received was marked */
	__u32 acked_to; /* rcv_nxt before it */
};

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

/* For a connection without ECN: no mark would be echoed. */
static __always_inline void switch_to_reno(struct sock *sk)
{
	char reno[] = "reno";

	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno)); /* also stops setting ECT */
}

static __always_inline void echo_begin(struct sock *sk, struct echo *echo)
{
	echo->acked_to = ((struct tcp_sock *)sk)->rcv_nxt;
}

/* ECE says whether the acknowledged segments were marked. When the mark changes, the segments received before are acknowledged
 * at once, with the old mark. */
static __always_inline void echo_received(struct sock *sk, struct echo *echo, __u32 ce)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (echo->ce != ce) {
		if (connection->icsk_ack.pending & ICSK_ACK_TIMER) {
			if (echo->ce)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			bpf_tcp_send_ack(tp, echo->acked_to);
		}
		connection->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	echo->ce = ce;
	echo->acked_to = tp->rcv_nxt;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

static __always_inline void echo_event(struct sock *sk, struct echo *echo, enum tcp_ca_event event)
{
	if (event == CA_EVENT_ECN_IS_CE)
		echo_received(sk, echo, 1);
	else if (event == CA_EVENT_ECN_NO_CE)
		echo_received(sk, echo, 0);
}

#endif
