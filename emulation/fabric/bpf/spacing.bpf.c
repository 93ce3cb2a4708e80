/* The two ends of an emulated link: whether its packets leave one after another as a link of its rate would send them, as
 * Mininet-HiFi measures fidelity (section 3): |dt - ideal| / ideal, dt between two departures, ideal from the first one's size.
 *
 * `baton_waits` at the sending port's egress writes when a packet came. The packet carries the time to the other end, as IP and IPv6
 * packets may. There `baton_spacing` reads the clock: a veth hands a packet over at once. Only a packet that had come when the one
 * before it left counts: between others the link was idle. A link of exact times (departure.bpf.c) needs no `baton_waits`. */
#define BPF_NO_PRESERVE_ACCESS_INDEX /* what is read here is the same in all kernels: loading needs no kernel's types */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "links.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct link_spacing);
} spacing SEC(".maps");

SEC("tc")
int baton_waits(struct __sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_BATON))
		bpf_skb_set_tstamp(skb, bpf_ktime_get_ns(), TIME_MONOTONIC);
	return TC_ACT_UNSPEC;
}

static __always_inline __u32 bucket_of(__u64 error)
{
	__u64 rest = error;
	__u32 bits = 0;

	if (error >> MOST_BITS)
		return BUCKETS - 1;
	if (error < 1 << FINE_BITS)
		return error;
	if (rest >> 32) {
		bits += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		bits += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		bits += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		bits += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		bits += 2;
		rest >>= 2;
	}
	if (rest >> 1)
		bits += 1;
	return ((bits - FINE_BITS + 1) << FINE_BITS) + (error >> (bits - FINE_BITS) & ((1 << FINE_BITS) - 1));
}

static __always_inline void record(struct link_spacing *link, __u64 distance_ns)
{
	__u64 ideal = link->bytes * 8 * NS_PER_S, real, off, error;
	__u32 bucket;

	if (!ideal)
		return;
	if (distance_ns > LONGEST_NS)
		distance_ns = LONGEST_NS;
	real = distance_ns * link->rate_bps;
	off = real > ideal ? real - ideal : ideal - real;
	error = off / (link->bytes * 8 * (NS_PER_S / 1000000));
	link->back_to_back++;
	if (error > link->worst)
		link->worst = error;
	off /= link->rate_bps;
	if (off > link->worst_ns)
		link->worst_ns = off;
	bucket = bucket_of(error);
	if (bucket < BUCKETS)
		link->buckets[bucket]++;
}

SEC("tc")
int baton_spacing(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct link_spacing *link = bpf_map_lookup_elem(&spacing, &zero);
	bool waited;

	if (!link || !link->rate_bps)
		return TC_ACT_UNSPEC;
	if (skb->protocol == bpf_htons(ETH_P_BATON)) {
		if (!link->exact) /* whose times take account of it */
			link->bytes += skb->len;
		return TC_ACT_UNSPEC;
	}
	waited = skb->tstamp_type == TIME_MONOTONIC && (link->exact || skb->tstamp <= link->last_ns);
	if (waited && link->last_ns && now >= link->last_ns)
		record(link, now - link->last_ns);
	link->last_ns = now;
	link->bytes = skb->len;
	link->packets++;
	skb->tstamp = 0;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
