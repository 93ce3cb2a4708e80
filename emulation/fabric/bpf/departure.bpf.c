/* An interface's egress (clsact): gives each packet the time at which a link of exactly the wanted rate would begin to send it.
 * The qdisc `fq` keeps the time. A link is busy for the bits of a packet divided by its rate: in whole nanoseconds, and the rest of
 * the division is carried to the next packet, so that the mean is exact, too.
 *
 * The buffer is a FIFO of so many waiting packets. The program keeps as many departure times, the oldest of which is overwritten by
 * the next packet's. If that one is still to come, the buffer is full, and the packet is dropped.
 *
 * Control frames leave at once, before all data. The link is busy with them, too: packets that come later wait that much longer.
 *
 * A packet that waits because of the packet before it says so to the recorder at the other end of the link (spacing.bpf.c) by the
 * type of its time, which the kernel keeps for IP and IPv6.
 *
 * For the guest of virtual time: it has one processor, so no two packets are here at a time. */
#define BPF_NO_PRESERVE_ACCESS_INDEX /* what is read here is the same in all kernels: loading needs no kernel's types */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "links.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exact_port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader makes it as large as the buffer */
	__type(key, __u32);
	__type(value, __u64);
} departures SEC(".maps");

/* The link sends so many bytes as soon as it has sent what it was given before. */
static __always_inline void occupy(struct exact_port *port, __u64 now, __u32 bytes)
{
	__u64 parts, time;

	if (port->free_ns < now) {
		port->free_ns = now;
		port->rest = 0;
	}
	parts = (__u64)bytes * 8 * NS_PER_S + port->rest;
	time = parts / port->rate_bps;
	port->free_ns += time;
	port->rest = parts - time * port->rate_bps;
}

SEC("tc")
int baton_departure(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), leaves, *oldest;
	__u32 zero = 0, next;
	struct exact_port *port = bpf_map_lookup_elem(&ports, &zero);
	bool follows;

	if (!port || !port->rate_bps) /* other queues have taken the interface over: an agent's at a host */
		return TC_ACT_UNSPEC;
	if (skb->protocol == bpf_htons(ETH_P_BATON)) {
		occupy(port, now, skb->wire_len);
		port->control_between = 1;
		skb->tstamp = 0;
		if (port->bands)
			skb->priority = port->bands | CONTROL_BAND;
		return TC_ACT_UNSPEC;
	}
	next = port->next;
	oldest = bpf_map_lookup_elem(&departures, &next);
	if (!oldest)
		return TC_ACT_UNSPEC;
	if (*oldest > now) {
		port->drops++;
		return TC_ACT_SHOT;
	}
	leaves = port->free_ns > now ? port->free_ns : now;
	follows = leaves > now && !port->control_between;
	occupy(port, now, skb->wire_len);
	port->control_between = 0;
	*oldest = leaves;
	port->next = next + 1 < port->packets ? next + 1 : 0;
	if (bpf_skb_set_tstamp(skb, leaves, follows ? TIME_MONOTONIC : TIME_REAL))
		skb->tstamp = leaves; /* neither IP nor IPv6 */
	if (port->bands)
		skb->priority = port->bands | DATA_BAND;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
