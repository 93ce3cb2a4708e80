/* For tests, at an interface's egress: sets CE on every Nth ECT segment with payload (IPv4), as a switch would, or loses one. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define TC_ACT_UNSPEC (-1)
#define TC_ACT_STOLEN 4 /* gone, and the sender is not told */
#define ECN_CE 3
#define LEAST_LENGTH 100 /* a bare acknowledgement is shorter */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} every SEC(".maps"); /* N; 0 for none */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} seen SEC(".maps"); /* ECT segments so far */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} lose SEC(".maps"); /* how many of the next are lost */

SEC("tc")
int mark_ce(struct __sk_buff *skb)
{
	__u32 zero = 0, offset = sizeof(struct ethhdr);
	__u32 *interval = bpf_map_lookup_elem(&every, &zero), *count = bpf_map_lookup_elem(&seen, &zero);
	__u32 *losing = bpf_map_lookup_elem(&lose, &zero);
	struct iphdr ip;
	__u8 tos;

	if (skb->protocol != bpf_htons(0x0800) || skb->len < LEAST_LENGTH || !interval || !count || !losing)
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || !(ip.tos & ECN_CE))
		return TC_ACT_UNSPEC;
	if (*losing) {
		*losing -= 1;
		return TC_ACT_STOLEN;
	}
	*count += 1;
	if (!*interval || *count % *interval)
		return TC_ACT_UNSPEC;
	tos = ip.tos | ECN_CE;
	/* RFC 1624 by the helper: the field is summed as the 16-bit word that holds it. */
	bpf_l3_csum_replace(skb, offset + __builtin_offsetof(struct iphdr, check), bpf_htons(ip.tos), bpf_htons(tos), 2);
	bpf_skb_store_bytes(skb, offset + __builtin_offsetof(struct iphdr, tos), &tos, 1, 0);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
