/* Drops a share of the DIRECTIVE frames that leave an interface: the benchmark attaches it to the coordinator's port. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define ETH_P_BATON 0x88B5
#define TYPE_OFFSET 17 /* PROTOCOL.md: Ethernet header, magic, version, type */
#define DIRECTIVE 7
#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3); /* percent, directives seen, directives lost */
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

static __always_inline void count(__u32 index)
{
	__u64 *value = bpf_map_lookup_elem(&counts, &index);

	if (value)
		__sync_fetch_and_add(value, 1);
}

SEC("tc")
int lose(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *percent = bpf_map_lookup_elem(&counts, &zero);
	__u8 type;

	if (!percent || skb->protocol != bpf_htons(ETH_P_BATON))
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(skb, TYPE_OFFSET, &type, 1) || type != DIRECTIVE)
		return TC_ACT_UNSPEC;
	count(1);
	if (bpf_get_prandom_u32() % 100 >= *percent)
		return TC_ACT_UNSPEC;
	count(2);
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "GPL";
