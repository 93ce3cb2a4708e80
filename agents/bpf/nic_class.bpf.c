/* Gives each packet its traffic class of the interface, where the interface obeys PFC by itself (clsact, after the classifier).
 *
 * The kernel chooses the interface's transmit queue by the low four bits of skb->priority, before the qdiscs see the packet.
 * The classifier has put the HTB class there, unless the packet is to no member: set_class moves it to skb->tc_index, where
 * find_class, a filter at the root HTB, reads it. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "classify.h"

#define TC_ACT_UNSPEC (-1)
#define NO_MATCH 0

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_NODES);
	__type(key, __u32);
	__type(value, __u32);
} nic_classes SEC(".maps");

SEC("tc")
int set_class(struct __sk_buff *skb)
{
	__u32 minor = skb->priority >> 16 == ROOT_MAJOR ? skb->priority & 0xffff : OTHER_MINOR, *class;

	if (minor == WAKEUP_MINOR)
		return TC_ACT_UNSPEC;
	class = bpf_map_lookup_elem(&nic_classes, &minor);
	if (class) {
		skb->tc_index = minor;
		skb->priority = *class;
	}
	return TC_ACT_UNSPEC;
}

SEC("tc")
int find_class(struct __sk_buff *skb)
{
	return skb->tc_index ? ROOT_MAJOR << 16 | (skb->tc_index & 0xffff) : NO_MATCH;
}

char LICENSE[] SEC("license") = "GPL";
