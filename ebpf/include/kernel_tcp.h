/* The fields of the kernel's TCP that Baton's congestion controls read and write; see kernel.h. Include it after kernel.h. */
#ifndef BATON_KERNEL_TCP_H
#define BATON_KERNEL_TCP_H

enum baton_socket_state { TCP_SYN_SENT = 2, TCP_CLOSE = 7, TCP_LISTEN = 10 }; /* net/tcp_states.h */
enum baton_pacing { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1 };		     /* net/sock.h: sk_pacing */

enum tcp_ca_event { /* net/tcp.h */
	CA_EVENT_TX_START = 0,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	__u32 sk_mark;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
};

struct inet_connection_sock {
	__u32 icsk_rto;
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
	__u64 icsk_ca_priv[13];
};

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct minmax rtt_min;
	__u8 ecn_flags;
	__u64 bytes_acked;
	__u64 tcp_mstamp;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 high_seq;
	__u32 lsndtime;
	__u32 mss_cache;
	__u32 packets_out;
	__u32 rcv_nxt;
	__u32 snd_cwnd;
	__u32 snd_nxt;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 srtt_us;
	__u32 write_seq;
};

#pragma clang attribute pop

struct tcp_congestion_ops { /* libbpf finds the kernel's members by these names */
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*cong_control)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 flags;
	char name[16];
};

#endif
