/* For tests, at the egress of a port: a segment that finds the threshold's number of packets in the root qdisc is marked CE, one
 * that finds the buffer full is lost. IPv4. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define TC_ACT_UNSPEC (-1)
#define TC_ACT_STOLEN 4
#define ECN_CE 3

struct ecn_port_state {
	__u32 threshold; /* packets; 0: no marks */
	__u32 buffer;
	__u32 seen;
	__u32 marked;
	__u32 lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ecn_port_state);
} port SEC(".maps");

SEC("tc")
int ecn_port(struct __sk_buff *skb)
{
	__u32 zero = 0, waiting, offset = sizeof(struct ethhdr);
	struct ecn_port_state *p = bpf_map_lookup_elem(&port, &zero);
	struct iphdr ip;
	__u8 tos;

	if (!p || skb->protocol != bpf_htons(0x0800) || bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
		return TC_ACT_UNSPEC;
	waiting = BPF_CORE_READ((struct sk_buff *)skb, dev, qdisc, q.qlen);
	p->seen += 1;
	if (waiting >= p->buffer) {
		p->lost += 1;
		return TC_ACT_STOLEN;
	}
	if (!p->threshold || waiting < p->threshold || !(ip.tos & ECN_CE))
		return TC_ACT_UNSPEC;
	tos = ip.tos | ECN_CE;
	bpf_l3_csum_replace(skb, offset + __builtin_offsetof(struct iphdr, check), bpf_htons(ip.tos), bpf_htons(tos), 2);
	bpf_skb_store_bytes(skb, offset + __builtin_offsetof(struct iphdr, tos), &tos, 1, 0);
	p->marked += 1;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
