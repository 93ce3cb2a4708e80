/* A switch port's egress (clsact): decides in which strict queue a frame waits, whether the port's shared buffer has room for it,
 * and whether it is marked CE (RFC 3168), for DCTCP's step at a threshold (RFC 8257 section 3.1).
 *
 * It reads the lengths of the port's own queues, by their handles: so no estimate can drift from the truth, and it sees the sum
 * over queues, which a `red` under each of them could not. A frame for which there are no queues of ours (they have just been
 * removed) passes unchanged. The sender does not learn of a drop: a userspace switch would discard the rest of its batch. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "switch_queues.h"

#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_8021Q 0x8100
#define ETH_P_IPV6 0x86DD
#define ETH_P_8021AD 0x88A8
#define ETH_P_BATON 0x88B5
#define ETH_P_LLDP 0x88CC
#define IPPROTO_ICMPV6 58
#define TC_ACT_UNSPEC (-1) /* on to the next filter, then to the queues */
#define TC_ACT_STOLEN 4	   /* drops without an error for the sender */
#define ECN_MASK 3
#define ECN_CE 3
#define NOT_IP 0xff
#define LONGEST_LIST 16 /* queues whose handles have the same hash */
#define HASH_BITS 4	/* linux/netdevice.h: qdisc_hash */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct queue_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BANDS);
	__type(key, __u32);
	__type(value, struct queue_counts);
} counts SEC(".maps");

struct frame {
	__u32 offset; /* of the IP header */
	__u8 version; /* 0: not IP */
	__u8 tos;     /* DSCP and ECN */
	__u8 protocol;
	bool network; /* link-local control protocols */
	__u16 ethertype;
};

/* linux/hashtable.h and linux/hash.h: hash_min of a u32. The root itself is not in the table. */
static __always_inline struct Qdisc *find(struct net_device *device, __u32 handle)
{
	void *lists = __builtin_preserve_access_index(&device->qdisc_hash);
	__u32 slot = (handle * 0x61C88647u) >> (32 - HASH_BITS);
	struct hlist_node *node = NULL;
	int step;

	bpf_probe_read_kernel(&node, sizeof(node), lists + slot * sizeof(struct hlist_head));
	for (step = 0; step < LONGEST_LIST && node; step++) {
		struct Qdisc *queue = (void *)node - bpf_core_field_offset(struct Qdisc, hash);

		if (BPF_CORE_READ(queue, handle) == handle)
			return queue;
		node = BPF_CORE_READ(node, next);
	}
	return NULL;
}

/* Reads the fields that decide a frame's queue; a frame with a truncated header, or without IP, goes to the lowest queue. */
static __always_inline void read_frame(struct __sk_buff *skb, struct frame *frame)
{
	__u8 head[sizeof(struct ipv6hdr)], address[6];
	int tag;

	frame->ethertype = bpf_ntohs(skb->protocol);
	for (tag = 0; tag < 2; tag++) { /* 802.1Q inside 802.1ad; skb->protocol has skipped an offloaded tag */
		__be16 inner;

		if (frame->ethertype != ETH_P_8021Q && frame->ethertype != ETH_P_8021AD)
			break;
		if (bpf_skb_load_bytes(skb, frame->offset + 2, &inner, sizeof(inner)))
			return;
		frame->ethertype = bpf_ntohs(inner);
		frame->offset += 4;
	}
	/* IEEE 802.1Q table 8-1: 01-80-C2-00-00-0X never crosses a bridge: spanning tree, LACP, LLDP */
	if (!bpf_skb_load_bytes(skb, 0, address, sizeof(address)))
		frame->network = address[0] == 0x01 && address[1] == 0x80 && address[2] == 0xC2 && !address[3] && !address[4] &&
				 address[5] < 0x10;
	if (frame->ethertype == ETH_P_IP) {
		if (bpf_skb_load_bytes(skb, frame->offset, head, sizeof(struct iphdr)) || head[0] >> 4 != 4)
			return;
		frame->version = 4;
		frame->tos = head[1];
		frame->protocol = head[9];
	} else if (frame->ethertype == ETH_P_IPV6) {
		if (bpf_skb_load_bytes(skb, frame->offset, head, sizeof(struct ipv6hdr)) || head[0] >> 4 != 6)
			return;
		frame->version = 6;
		frame->tos = head[0] << 4 | head[1] >> 4;
		frame->protocol = head[6];
	}
}

static __always_inline __u32 band_of(const struct frame *frame, const struct queue_settings *set)
{
	if (frame->ethertype == ETH_P_BATON)
		return CONTROL_BAND;
	if (frame->network || frame->ethertype == ETH_P_ARP || frame->ethertype == ETH_P_LLDP)
		return NETWORK_BAND;
	if (!frame->version)
		return DATA_QUEUES - 1;
	if (frame->protocol == (frame->version == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return NETWORK_BAND;
	return set->queue[frame->tos >> 2] & (DATA_QUEUES - 1);
}

static __always_inline __s64 length(struct net_device *device, __u32 band)
{
	struct Qdisc *queue = find(device, DATA_FIFO(band));

	return queue ? BPF_CORE_READ(queue, q.qlen) : 0;
}

/* Whether a queue may take one more, as SwitchQueues.admits in ../model.py: it has its reserve, and of what is nobody's the dynamic
 * threshold of Choudhury and Hahne (IEEE/ACM ToN 6(2), 1998), by its own share. Without that, a backlog of low priority that fills
 * the buffer would cause drops in the queues that are served first. `total`: the packets in all data queues. */
static __always_inline bool admits(const struct queue_settings *set, struct net_device *device, __u32 band, __s64 total)
{
	__u32 slot = band & (DATA_QUEUES - 1), other;
	__s64 own = length(device, slot), free = (__s64)set->shared_packets - total;

	if (own < set->reserved[slot])
		return true;
	for (other = 0; other < DATA_QUEUES; other++) {
		__s64 reserved = set->reserved[other], held;

		if (!reserved)
			continue;
		held = other == slot ? own : length(device, other);
		free += held < reserved ? held : reserved;
	}
	if (free <= 0)
		return false;
	return !set->share_256[slot] || (own - set->reserved[slot]) * 256 < set->share_256[slot] * free;
}

/* Sets CE; keeps the DSCP, and updates the header checksum of IPv4 (RFC 1624, by the helper). */
static __always_inline void mark(struct __sk_buff *skb, const struct frame *frame)
{
	if (frame->version == 4) {
		__u8 tos = frame->tos | ECN_CE;

		bpf_l3_csum_replace(skb, frame->offset + __builtin_offsetof(struct iphdr, check), bpf_htons(frame->tos),
				    bpf_htons(tos), 2);
		bpf_skb_store_bytes(skb, frame->offset + __builtin_offsetof(struct iphdr, tos), &tos, 1, 0);
	} else {
		__u8 second;

		if (bpf_skb_load_bytes(skb, frame->offset + 1, &second, 1))
			return;
		second |= ECN_CE << 4;
		bpf_skb_store_bytes(skb, frame->offset + 1, &second, 1, BPF_F_RECOMPUTE_CSUM);
	}
}

SEC("tc")
int baton_queues(struct __sk_buff *skb)
{
	struct frame frame = {.offset = sizeof(struct ethhdr)};
	__u32 zero = 0, band, held, waiting;
	struct queue_settings *set = bpf_map_lookup_elem(&settings, &zero);
	struct net_device *device = BPF_CORE_READ((struct sk_buff *)skb, dev);
	struct queue_counts *count;
	struct Qdisc *queue;

	if (!set)
		return TC_ACT_UNSPEC;
	read_frame(skb, &frame);
	band = band_of(&frame, set);
	count = bpf_map_lookup_elem(&counts, &band);
	queue = find(device, band == CONTROL_BAND ? CONTROL_FIFO : band == NETWORK_BAND ? NETWORK_FIFO : DATA_QDISC);
	if (!count || !queue)
		return TC_ACT_UNSPEC;
	held = BPF_CORE_READ(queue, q.qlen);
	if (band < DATA_QUEUES ? !admits(set, device, band, held) : held >= set->band_packets) {
		__sync_fetch_and_add(&count->drops, 1);
		return TC_ACT_STOLEN;
	}
	if (band >= DATA_QUEUES) {
		skb->priority = band == CONTROL_BAND ? CONTROL_CLASS : NETWORK_CLASS;
		return TC_ACT_UNSPEC;
	}
	skb->priority = DATA_CLASS(band);
	if (!(frame.tos & ECN_MASK) || (frame.tos & ECN_MASK) == ECN_CE)
		return TC_ACT_UNSPEC;
	if (set->per_queue)
		queue = find(device, DATA_FIFO(band));
	waiting = queue ? BPF_CORE_READ(queue, qstats.backlog) : 0;
	if (waiting + skb->len > set->threshold_bytes) {
		mark(skb, &frame);
		__sync_fetch_and_add(&count->marks, 1);
	}
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
