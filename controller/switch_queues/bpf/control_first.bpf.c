/* A switch port's egress (clsact), whatever queue an operator has put there: data never takes the place of Baton's control frames.
 *
 * The queue itself stays as it is. Data frames may fill it up to a little less than its limit, so that it always has room for
 * control frames; those get the priority that the queue serves first, where it has one.
 *
 * A userspace switch sends the frames of all its ports through one packet socket, whose buffer the frames that wait in any
 * port's queue hold; and when a queue refuses a frame, it discards the rest of its batch. So one full port would stop all others.
 * A frame of a socket is therefore sent on as a clone, which holds no socket's buffer, and the switch never hears of a drop. The
 * clone passes here a second time, without a socket. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "control_first.h"

#define TC_ACT_UNSPEC (-1) /* on to the next filter, then to the queue */
#define TC_ACT_STOLEN 4	   /* drops without an error for the sender */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control_counts);
} counts SEC(".maps");

static __always_inline bool is_control(struct __sk_buff *skb)
{
	__u16 protocol = bpf_ntohs(skb->protocol);
	__be16 inner;

	if (protocol == ETH_P_8021Q || protocol == ETH_P_8021AD) {
		if (bpf_skb_load_bytes(skb, sizeof(struct ethhdr) + 2, &inner, sizeof(inner)))
			return false;
		protocol = bpf_ntohs(inner);
	}
	return protocol == ETH_P_BATON;
}

static __always_inline bool has_room(struct __sk_buff *skb, const struct control_settings *set)
{
	struct Qdisc *root = BPF_CORE_READ((struct sk_buff *)skb, dev, qdisc);

	if (set->most_bytes && BPF_CORE_READ(root, qstats.backlog) + skb->len > set->most_bytes)
		return false;
	return !set->most_packets || BPF_CORE_READ(root, q.qlen) < set->most_packets;
}

SEC("tc")
int baton_control(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct control_settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct control_counts *count = bpf_map_lookup_elem(&counts, &zero);
	bool control = is_control(skb);

	if (!set || !count)
		return TC_ACT_UNSPEC;
	if (!control && !has_room(skb, set)) {
		__sync_fetch_and_add(&count->refused, 1);
		return TC_ACT_STOLEN;
	}
	if (control)
		skb->priority = set->priority;
	if (!skb->sk)
		return TC_ACT_UNSPEC;
	if (bpf_clone_redirect(skb, skb->ifindex, 0))
		__sync_fetch_and_add(&count->dropped, 1);
	return TC_ACT_STOLEN;
}

char LICENSE[] SEC("license") = "GPL";
