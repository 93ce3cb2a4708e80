/* Classifier at a host's egress (clsact): packets of small flows go first, others wait at their destination's gate.
 *
 * Sets skb->priority to the HTB class that serves the packet and lets other filters see it too (TC_ACT_UNSPEC).
 * A V2V flow, a pair of addresses, has an allowance that refills at a low rate. While it lasts the flow is small. Once it is
 * spent the flow is large, and stays so until the allowance is whole again: that takes mice_bytes / mice_rate seconds of
 * near silence, by when its gated queue has drained, so that going back to the small band reorders nothing.
 *
 * Bytes are those that the link will carry (wire_len): of a super-packet, with the headers of each of its frames. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "classify.h"
#include "elapsed.h"
#include "released.h"
#include "resent.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define ETH_P_ARP 0x0806
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define ETH_P_LLDP 0x88CC
#define ETH_P_BATON 0x88B5
#define TC_ACT_UNSPEC (-1)
#define TC_ACT_STOLEN 4
#define WAKEUP (ROOT_MAJOR << 16 | WAKEUP_MINOR)
#define IPPROTO_ICMPV6 58
#define TC_PRIO_CONTROL 7 /* of the sockets of agents and coordinators (protocol/link.py) */
#define SECOND 1000000000ULL
#define LEAST_IP 46 /* bytes of a packet in the shortest frame, with its padding (IEEE 802.3, 3.2.8) */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct address);
	__type(value, __u32);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* the agent reads the counters of all destinations at once */
	__uint(max_entries, MAX_NODES);
	__type(key, __u32);
	__type(value, struct destination);
} nodes SEC(".maps");

/* DSCPs with a queue of their own, whatever the destination: the node that stands for each, or 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DSCPS);
	__type(key, __u32);
	__type(value, __u32);
} dscp_nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} events SEC(".maps");

/* Whether there was room to tell it; if not, a later packet has to. */
static __always_inline bool tell(__u32 kind, __u32 node, struct flow_key *key, __u32 dscp)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return false;
	event->kind = kind;
	event->node = node;
	event->dscp = dscp;
	event->source = key->source;
	event->target = key->target;
	bpf_ringbuf_submit(event, 0);
	return true;
}

/* Reads addresses and DSCP; returns the transport protocol, or -1. *bare is set for a TCP segment without payload, and *segment
 * for one with. */
static __always_inline int read_ip(struct __sk_buff *skb, __u32 offset, __u16 protocol, struct flow_key *key, int *bare,
				   struct baton_segment *segment, __u32 *dscp)
{
	__u32 header, payload;
	int transport;

	if (protocol == ETH_P_IP) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
			return -1;
		key->source.bytes[10] = key->source.bytes[11] = 0xff;
		key->target.bytes[10] = key->target.bytes[11] = 0xff;
		__builtin_memcpy(&key->source.bytes[12], &ip.saddr, 4);
		__builtin_memcpy(&key->target.bytes[12], &ip.daddr, 4);
		transport = ip.protocol;
		*dscp = ip.tos >> 2;
		if (ip.frag_off & bpf_htons(0x3fff))
			return transport; /* a fragment carries payload, whatever it is */
		header = ip.ihl * 4;
		payload = bpf_ntohs(ip.tot_len);
		if (!payload) /* a super-packet beyond 64 KB (BIG TCP) */
			payload = skb->len - offset;
		payload -= header;
	} else {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || ip.version != 6)
			return -1;
		__builtin_memcpy(&key->source, &ip.saddr, 16);
		__builtin_memcpy(&key->target, &ip.daddr, 16);
		transport = ip.nexthdr;
		*dscp = ip.priority << 2 | ip.flow_lbl[0] >> 6;
		header = sizeof(ip);
		payload = bpf_ntohs(ip.payload_len);
		if (!payload) /* the same, since Linux 7.0; before, such a packet has an extension header */
			payload = skb->len - offset - header;
	}
	if (transport == IPPROTO_TCP) {
		__u8 word[2]; /* data offset, flags */
		__u32 own;

		if (bpf_skb_load_bytes(skb, offset + header + 12, word, sizeof(word)))
			return transport;
		own = (word[0] >> 4) * 4;
		/* And the frame is no longer than it says: others' packets come through a bridge unread. */
		*bare = payload <= own && skb->len - offset <= (header + own > LEAST_IP ? header + own : LEAST_IP);
		segment->header = offset + header;
		segment->payload = payload - own;
		segment->flags = word[1];
	}
	return transport;
}

/* Charges the packet to its flow's allowance, and tells of the flow, once for each queue that it needs; returns whether it is
 * large. `own`: the DSCP that has a queue of its own, which is then the node's, or -1. */
static __always_inline int charge(struct flow_key *key, __u32 node, int own, __u32 length, __u32 dscp, struct settings *set)
{
	__u64 now = bpf_ktime_get_ns(), *told, queue;
	struct flow *flow;

	flow = bpf_map_lookup_elem(&flows, key);
	if (!flow) {
		struct flow fresh = {.tokens = set->mice_bytes, .stamp = now};

		bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&flows, key);
		if (!flow)
			return 0;
	}
	if (own < 0 && flow->node != node) { /* its first packet, or its destination is another node by now */
		flow->node = node;
		flow->dscps = 0;
	}
	told = own < 0 ? &flow->dscps : &flow->scheduled;
	queue = 1ULL << ((own < 0 ? dscp : own) & 63);
	if (!key->icmp && !(*told & queue) && tell(BATON_NEW_FLOW, node, key, dscp))
		*told |= queue;
	__u64 idle = elapsed(now, flow->stamp);
	__u64 tokens = flow->tokens + (idle >= set->mice_whole ? set->mice_bytes : idle * set->mice_rate / SECOND);

	if (tokens >= set->mice_bytes) {
		tokens = set->mice_bytes;
		flow->large = 0;
	}
	if (tokens < length) {
		tokens = 0;
		flow->large = 1;
	} else {
		tokens -= length;
	}
	flow->tokens = tokens;
	if (idle)
		flow->stamp = now;
	__sync_fetch_and_add(&flow->bytes, length);
	__sync_fetch_and_add(&flow->packets, 1);
	return flow->large;
}

/* Whether a frame is the host's own: of an agent or coordinator, or ARP of its kernel. Frames of a guest come through a bridge,
 * or, by macvlan and macvtap, from a socket that is not the host's. (Who may give sockets a priority, which needs CAP_NET_RAW,
 * may feign the former.) */
static __always_inline bool is_own(struct __sk_buff *skb, __u16 protocol)
{
	if (skb->ingress_ifindex)
		return false;
	return protocol == ETH_P_BATON ? skb->priority == TC_PRIO_CONTROL : !skb->sk;
}

/* Whether ARP and LLDP of guests, and of the host's programs, stay within the allowance that all of them have together. */
static __always_inline bool guests_ask(struct __sk_buff *skb, struct settings *set)
{
	struct flow_key all = {.icmp = 1}; /* of no address; nobody is told of it */

	return !charge(&all, 0, -1, skb->wire_len, 0, set);
}

SEC("tc")
int classify(struct __sk_buff *skb)
{
	__u16 protocol = bpf_ntohs(skb->protocol);
	__u32 offset = sizeof(struct ethhdr);
	struct flow_key key = {};
	struct baton_segment segment = {};
	int bare = 0, transport, urgent, own;
	__u32 *node_id, *scheduled, node, armed, zero = 0, dscp = 0;
	struct settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct destination *state;

	if (skb->priority == WAKEUP)
		return TC_ACT_UNSPEC;
	if (skb->tc_index == BATON_RELEASED) { /* this program has seen the packet, and given it its class */
		skb->tc_index = 0;
		return TC_ACT_UNSPEC;
	}
	if (skb->priority >> 16 == ROOT_MAJOR) /* its sender asks for a class */
		skb->priority = 0;
	for (int tags = 0; tags < 2 && (protocol == ETH_P_8021Q || protocol == ETH_P_8021AD); tags++) {
		__be16 inner;

		if (bpf_skb_load_bytes(skb, offset + 2, &inner, 2))
			return TC_ACT_UNSPEC;
		protocol = bpf_ntohs(inner);
		offset += 4;
	}
	if (protocol == ETH_P_BATON || protocol == ETH_P_ARP || protocol == ETH_P_LLDP) {
		if (is_own(skb, protocol))
			skb->priority = ROOT_MAJOR << 16 | CONTROL_MINOR;
		else if (protocol != ETH_P_BATON && set && guests_ask(skb, set))
			skb->priority = ROOT_MAJOR << 16 | SMALL_MINOR;
		return TC_ACT_UNSPEC;
	}
	if (protocol != ETH_P_IP && protocol != ETH_P_IPV6)
		return TC_ACT_UNSPEC;
	transport = read_ip(skb, offset, protocol, &key, &bare, &segment, &dscp);
	if (transport < 0 || !set)
		return TC_ACT_UNSPEC;
	scheduled = bpf_map_lookup_elem(&dscp_nodes, &dscp);
	own = scheduled && *scheduled ? (int)dscp : -1;
	if (!set->priorities)
		dscp = 0;
	urgent = set->priorities && dscp == set->urgent_dscp;
	node_id = bpf_map_lookup_elem(&members, &key.target);
	if (!node_id)
		return TC_ACT_UNSPEC;
	node = scheduled && own >= 0 ? *scheduled : *node_id;
	key.icmp = transport == IPPROTO_ICMP || transport == IPPROTO_ICMPV6;
	if (segment.flags & BATON_SYN)
		baton_begin(skb, &key, &segment);
	if (bare || !charge(&key, node, own, skb->wire_len, dscp, set)) {
		skb->priority = ROOT_MAJOR << 16 | SMALL_MINOR;
		return TC_ACT_UNSPEC;
	}
	skb->priority = ROOT_MAJOR << 16 | (node & 0xffff);
	state = bpf_map_lookup_elem(&nodes, &node);
	if (state) {
		__sync_fetch_and_add(&state->bytes, skb->wire_len);
		if (segment.header && baton_lost(skb, &key, &segment))
			__sync_fetch_and_add(&state->lost, 1);
		if ((state->armed == BATON_FOR_ANY || (state->armed == BATON_FOR_URGENT && urgent)) &&
		    (armed = __sync_lock_test_and_set(&state->armed, 0)) &&
		    !tell(urgent ? BATON_URGENT : BATON_BACKLOGGED, node, &key, dscp))
			state->armed = armed;
	}
	return segment.header && baton_release(skb, node) ? TC_ACT_STOLEN : TC_ACT_UNSPEC;
}

/* A filter of the root HTB. A frame that only wakes the queues has done so once it is here: this drops it, uncounted.
 * (No process can send with this priority without CAP_NET_ADMIN.) */
SEC("tc")
int drop_wakeup(struct __sk_buff *skb)
{
	return skb->priority == WAKEUP ? TC_ACT_STOLEN : TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
