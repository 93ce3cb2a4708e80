/* A packet that waits at a gate, and is no longer its sender's.
 *
 * TCP lets a connection have two packets in the host's queues, or what it sends in a millisecond, until they have left
 * (tcp_small_queue_check in net/ipv4/tcp_output.c), and a paced one sends no faster than its window in a round trip. So a closed
 * gate holds two packets of it, a slot passes these and what pacing lets follow, and the window, never used up, does not grow.
 * A copy of the packet belongs to no socket. It takes the packet's place, as if the gate were the first switch on the way: then the
 * connection sends on while the gate is closed, and a slot passes what has come together. A connection's bytes that are not
 * acknowledged are bounded, so a gate holds little more than a turn of it; beyond that the packet stays its sender's. */
#ifndef BATON_RELEASED_H
#define BATON_RELEASED_H

#include "classify.h"

/* By node: how much a connection may have sent there without an acknowledgement and still be released; 0: never. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_NODES);
	__type(key, __u32);
	__type(value, __u32);
} outstanding SEC(".maps");

/* Sends a copy in the packet's place if it is a TCP connection's of this host that has few bytes on their way; whether it did. A copy
 * that is dropped leaves the packet to be dropped, too, so that its connection hears of that. */
static __always_inline int baton_release(struct __sk_buff *skb, __u32 node)
{
	__u32 *most = bpf_map_lookup_elem(&outstanding, &node);
	struct bpf_tcp_sock *connection;
	struct bpf_sock *socket;
	int sent;

	if (!most || !*most || !skb->sk)
		return 0;
	socket = bpf_sk_fullsock(skb->sk);
	if (!socket)
		return 0;
	connection = bpf_tcp_sock(socket);
	if (!connection || connection->snd_nxt - connection->snd_una >= *most)
		return 0;
	skb->tc_index = BATON_RELEASED;
	sent = !bpf_clone_redirect(skb, skb->ifindex, 0);
	skb->tc_index = 0;
	return sent;
}

#endif
