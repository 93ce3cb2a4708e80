/* For tests, at an interface's egress: counts packets by skb->priority, by which the kernel chooses a transmit queue. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC (-1)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} priorities SEC(".maps");

SEC("tc")
int count_priority(struct __sk_buff *skb)
{
	__u32 priority = skb->priority, *count = bpf_map_lookup_elem(&priorities, &priority);

	if (count)
		__sync_fetch_and_add(count, 1);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
