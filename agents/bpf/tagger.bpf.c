/* Tagger at a host's egress (clsact): which of the switches' priority queues a packet of TCP or UDP goes to, by its DSCP.
 *
 * Karuna (SIGCOMM 2016), sections 4 and 5: a flow with a deadline (type 1) has the top queue, one of known size (type 2) is
 * split on it by thresholds beta, any other (type 3) sinks by thresholds alpha on the bytes it has sent. Type and size are
 * the socket's mark (protocol/flowmark.py). A mark may name a coflow instead (type 4): its queue is the controller's, and the
 * last one if the controller has not said. kappa retransmission timeouts promote a flow: type 2 is split again on what is
 * left, type 3 starts again at the top. Everything else passes as it is, and every packet goes on to the next filter. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "tagger.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define TC_ACT_UNSPEC (-1)
#define SIZE_BITS 20 /* of the mark, in KB; the deadline is above */
#define COFLOW_FIELD 0xfff /* in the deadline's place: the low bits are a coflow's id */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define ECN_MASK 0x03
#define COUNT(what) count(__builtin_offsetof(struct tag_counters, what) / sizeof(__u64))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tag_settings);
} settings SEC(".maps");

/* An array's value is not replaced at once: thresholds are written to the slot that is not in use, then the index is. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct tag_thresholds);
} thresholds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} active SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COFLOWS / 8);
	__type(key, __u32);
	__type(value, struct tag_coflows);
} coflows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TAGGED_FLOWS);
	__type(key, struct tag_key);
	__type(value, struct tag_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tag_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ends SEC(".maps");

union ip_header {
	struct iphdr v4;
	struct ipv6hdr v6;
	__u8 bytes[sizeof(struct ipv6hdr)];
};

struct packet {
	struct tag_key key;
	union ip_header ip;
	__u32 offset; /* of the IP header */
	__u32 payload;
	__u32 sequence; /* of the first payload byte */
	__u8 version;
	__u8 flags;
};

enum reading { READ, UNTOUCHED, MALFORMED };

struct tcp_start {
	__be16 source, target;
	__be32 sequence, acknowledged;
	__u8 data_offset, flags;
	__be16 window;
};

/* Copies a header of the type of *to; true if the packet ends before. Directly where the headers are linear, as they mostly
 * are: a helper's call costs more than all else that is done with them. */
#define TAKE(skb, offset, to)                                                                                                  \
	({                                                                                                                     \
		void *at = (void *)(long)(skb)->data + (offset);                                                               \
		bool cut = false;                                                                                              \
                                                                                                                               \
		if (at + sizeof(*(to)) <= (void *)(long)(skb)->data_end)                                                       \
			*(to) = *(typeof(to))at;                                                                               \
		else                                                                                                           \
			cut = bpf_skb_load_bytes(skb, offset, to, sizeof(*(to)));                                              \
		cut;                                                                                                           \
	})

static __always_inline void count(__u32 which)
{
	__u32 zero = 0;
	struct tag_counters *all = bpf_map_lookup_elem(&counters, &zero);

	if (all)
		((__u64 *)all)[which]++;
}

static __always_inline int type_of(__u32 mark)
{
	__u32 deadline = mark >> SIZE_BITS;

	return deadline == COFLOW_FIELD ? 4 : deadline ? 1 : mark ? 2 : 3;
}

static __always_inline __u64 size_of(__u32 mark)
{
	return (__u64)(mark & ((1 << SIZE_BITS) - 1)) << 10;
}

/* Reads the network header; returns the bytes from the transport header to the packet's end in *length. */
static __always_inline enum reading read_network(struct __sk_buff *skb, __u16 protocol, struct packet *packet, __u32 *header,
						 __u32 *length)
{
	if (protocol == ETH_P_IP) {
		struct iphdr *ip = &packet->ip.v4;
		__u32 total;

		if (TAKE(skb, packet->offset, ip) || ip->version != 4 || ip->ihl < 5)
			return MALFORMED;
		if (ip->ihl > 5 || ip->frag_off & bpf_htons(0x3fff))
			return UNTOUCHED;
		total = bpf_ntohs(ip->tot_len);
		if (!total) /* a super-packet beyond 64 KB (BIG TCP) */
			total = skb->len - packet->offset;
		if (total < sizeof(*ip))
			return MALFORMED;
		packet->version = 4;
		packet->key.source[10] = packet->key.source[11] = 0xff;
		packet->key.target[10] = packet->key.target[11] = 0xff;
		__builtin_memcpy(&packet->key.source[12], &ip->saddr, 4);
		__builtin_memcpy(&packet->key.target[12], &ip->daddr, 4);
		packet->key.protocol = ip->protocol;
		*header = packet->offset + sizeof(*ip);
		*length = total - sizeof(*ip);
	} else {
		struct ipv6hdr *ip = &packet->ip.v6;

		if (TAKE(skb, packet->offset, ip) || ip->version != 6)
			return MALFORMED;
		packet->version = 6;
		__builtin_memcpy(packet->key.source, &ip->saddr, 16);
		__builtin_memcpy(packet->key.target, &ip->daddr, 16);
		packet->key.protocol = ip->nexthdr;
		*header = packet->offset + sizeof(*ip);
		*length = bpf_ntohs(ip->payload_len);
	}
	if (packet->key.protocol != IPPROTO_TCP && packet->key.protocol != IPPROTO_UDP)
		return UNTOUCHED;
	return *header + *length > skb->len ? MALFORMED : READ;
}

static __always_inline enum reading read_transport(struct __sk_buff *skb, struct packet *packet, __u32 header, __u32 length)
{
	__u32 own;

	if (packet->key.protocol == IPPROTO_TCP) {
		struct tcp_start tcp;

		if (length < sizeof(struct tcphdr) || TAKE(skb, header, &tcp))
			return MALFORMED;
		own = (tcp.data_offset >> 4) * 4;
		if (own < sizeof(struct tcphdr))
			return MALFORMED;
		packet->key.source_port = tcp.source;
		packet->key.target_port = tcp.target;
		packet->flags = tcp.flags;
		packet->sequence = bpf_ntohl(tcp.sequence) + !!(tcp.flags & TCP_SYN);
	} else {
		struct udphdr udp;

		own = sizeof(udp);
		if (TAKE(skb, header, &udp))
			return MALFORMED;
		packet->key.source_port = udp.source;
		packet->key.target_port = udp.dest;
	}
	if (own > length)
		return MALFORMED;
	packet->payload = length - own;
	return READ;
}

static __always_inline void begin(struct tag_flow *flow, struct tag_settings *set, __u32 mark, __u64 now)
{
	__u32 span = set->kappa_max - set->kappa_min + 1;

	flow->start_ns = flow->last_ns = now;
	flow->size = flow->base = 0;
	flow->mark = mark;
	flow->split = size_of(mark);
	flow->queues = flow->timeouts = flow->promotions = flow->closed = 0;
	flow->kappa = set->kappa_min + (span > 1 ? bpf_get_prandom_u32() % span : 0);
}

/* Tells of a flow's end, unless it sent nothing or that was done; false when there is no room to. */
static __always_inline bool tell(const struct tag_key *key, struct tag_flow *flow, __u64 end_ns, __u8 reason)
{
	struct tag_end *end;

	if (flow->closed || !flow->size)
		return true;
	end = bpf_ringbuf_reserve(&ends, sizeof(*end), 0);
	if (!end) {
		COUNT(untold);
		return false;
	}
	end->key = *key;
	end->size = flow->size;
	end->start_ns = flow->start_ns;
	end->duration_ns = end_ns - flow->start_ns;
	end->mark = flow->mark;
	end->type = type_of(flow->mark);
	end->queues = flow->queues;
	end->reason = reason;
	end->promotions = flow->promotions;
	bpf_ringbuf_submit(end, 0);
	return true;
}

/* A retransmission timeout: the kappa'th moves the flow up. */
static __always_inline void age(struct tag_flow *flow)
{
	__u64 whole = size_of(flow->mark);

	COUNT(timeouts);
	if (++flow->timeouts < flow->kappa)
		return;
	flow->timeouts = 0;
	if (flow->promotions < 255)
		flow->promotions++;
	flow->split = whole > flow->size ? whole - flow->size : 0;
	flow->base = flow->size;
	COUNT(promotions);
}

/* Charges the payload to its flow; returns the bytes sent by which type 3 is judged: up to the end of this packet, or of its
 * first segment, for a super-packet has one DSCP. */
static __always_inline __u64 charge(struct tag_flow *flow, struct tag_settings *set, struct packet *packet, __u32 segment,
				    __u64 now)
{
	bool tcp = packet->key.protocol == IPPROTO_TCP;
	bool back = tcp && (__s32)(packet->sequence - flow->next) < 0;
	__u64 silence = now - flow->last_ns, before;
	__u32 fresh = packet->payload;

	if (!packet->payload)
		return flow->size - flow->base;
	if (back && silence >= set->rto_ns) {
		age(flow);
	} else if (!back && set->idle_ns && silence >= set->idle_ns && flow->size) {
		tell(&packet->key, flow, flow->last_ns, FLOW_IDLE);
		begin(flow, set, flow->mark, now);
	}
	if (tcp) {
		__s32 advance = packet->sequence + packet->payload - flow->next;

		fresh = advance <= 0 ? 0 : (__u32)advance < fresh ? (__u32)advance : fresh;
		if (advance > 0)
			flow->next = packet->sequence + packet->payload;
	}
	before = flow->size - flow->base;
	flow->last_ns = now;
	flow->size += fresh; /* not atomic: a flow is sent by one processor at a time, but for a shared UDP socket's */
	return before + (segment && segment < fresh ? segment : fresh);
}

/* The flow's state, made at its SYN or its first payload; none for what is sent apart from those. */
static __always_inline struct tag_flow *find(struct packet *packet, struct tag_settings *set, __u32 mark, __u64 now)
{
	struct tag_flow *flow = bpf_map_lookup_elem(&flows, &packet->key);
	bool syn = packet->flags & TCP_SYN;

	if (!flow) {
		struct tag_flow fresh = {.next = packet->sequence};

		if (!syn && !packet->payload)
			return NULL;
		begin(&fresh, set, mark, now);
		bpf_map_update_elem(&flows, &packet->key, &fresh, BPF_NOEXIST);
		return bpf_map_lookup_elem(&flows, &packet->key);
	}
	if (syn && (flow->closed || flow->next != packet->sequence)) {
		tell(&packet->key, flow, flow->last_ns, FLOW_REPLACED);
		begin(flow, set, mark, now);
		flow->next = packet->sequence;
	} else if (mark && mark != flow->mark) { /* the kernel's own segments of a marked connection may carry 0 */
		tell(&packet->key, flow, flow->last_ns, FLOW_REPLACED);
		begin(flow, set, mark, now);
	}
	return flow;
}

static __always_inline __u32 band(const __u64 *cuts, __u32 used, __u64 bytes)
{
	__u32 at;

	for (at = 0; at < THRESHOLDS; at++)
		if (at >= used || bytes <= cuts[at])
			break;
	return at + 1;
}

static __always_inline __u32 queue_of(__u32 mark, __u64 split, __u64 sent)
{
	__u32 zero = 0, *index = bpf_map_lookup_elem(&active, &zero), slot;
	struct tag_thresholds *cuts;
	int type = type_of(mark);

	if (type == 4) {
		__u32 eight = (mark & ((1 << SIZE_BITS) - 1)) / 8;
		struct tag_coflows *known = bpf_map_lookup_elem(&coflows, &eight);

		return QUEUES - 1 - (known ? known->above_last[mark % 8] : 0);
	}
	if (type == 1 || !index)
		return 0;
	slot = *index & 1;
	cuts = bpf_map_lookup_elem(&thresholds, &slot);
	if (!cuts)
		return 0;
	return type == 2 ? band(cuts->beta, cuts->count, split) : band(cuts->alpha, cuts->count, sent);
}

/* Writes the DSCP, keeps ECN (RFC 3168 section 5), and mends the header checksum of IPv4 (RFC 1624, equation 3). */
static __always_inline void write_dscp(struct __sk_buff *skb, struct packet *packet, __u8 dscp)
{
	union ip_header *ip = &packet->ip;

	if (packet->version == 4) {
		__u8 tos = dscp << 2 | (ip->v4.tos & ECN_MASK);
		__u16 old, new;
		__u32 sum;

		__builtin_memcpy(&old, ip->bytes, 2);
		ip->v4.tos = tos;
		__builtin_memcpy(&new, ip->bytes, 2);
		sum = (__u16)~ip->v4.check + (__u16)~old + new;
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		ip->v4.check = ~sum;
		bpf_skb_store_bytes(skb, packet->offset, ip, 12, BPF_F_RECOMPUTE_CSUM);
	} else {
		__u8 old = ip->bytes[0] << 4 | ip->bytes[1] >> 4;
		__u8 tos = dscp << 2 | (old & ECN_MASK);

		ip->bytes[0] = 6 << 4 | tos >> 4;
		ip->bytes[1] = tos << 4 | (ip->bytes[1] & 0x0f);
		bpf_skb_store_bytes(skb, packet->offset, ip, 2, BPF_F_RECOMPUTE_CSUM);
	}
}

SEC("tc")
int tag(struct __sk_buff *skb)
{
	struct packet packet = {.offset = sizeof(struct ethhdr)};
	__u32 header = 0, length = 0, zero = 0, mark = skb->mark, queue;
	__u16 protocol = bpf_ntohs(skb->protocol);
	__u64 now, sent = 0, split = size_of(mark);
	struct tag_settings *set;
	struct tag_flow *flow;
	enum reading reading;

	if (protocol == ETH_P_8021Q || protocol == ETH_P_8021AD) {
		__be16 inner;

		if (bpf_skb_load_bytes(skb, packet.offset + 2, &inner, 2)) {
			COUNT(malformed);
			return TC_ACT_UNSPEC;
		}
		protocol = bpf_ntohs(inner);
		packet.offset += 4;
	}
	reading = UNTOUCHED;
	if (protocol == ETH_P_IP || protocol == ETH_P_IPV6)
		reading = read_network(skb, protocol, &packet, &header, &length);
	if (reading == READ)
		reading = read_transport(skb, &packet, header, length);
	set = bpf_map_lookup_elem(&settings, &zero);
	if (reading != READ || !set) {
		if (reading == MALFORMED)
			COUNT(malformed);
		else
			COUNT(untouched);
		return TC_ACT_UNSPEC;
	}
	now = bpf_ktime_get_ns();
	flow = find(&packet, set, mark, now);
	if (flow) {
		sent = charge(flow, set, &packet, skb->gso_size, now);
		mark = flow->mark;
		split = flow->split;
	}
	queue = queue_of(mark, split, sent) & (QUEUES - 1);
	write_dscp(skb, &packet, set->dscp[queue]);
	COUNT(tagged);
	if (flow) {
		flow->queues |= 1 << queue;
		if (packet.flags & (TCP_FIN | TCP_RST) &&
		    tell(&packet.key, flow, now, packet.flags & TCP_RST ? FLOW_RST : FLOW_FIN))
			flow->closed = 1;
	}
	return TC_ACT_UNSPEC;
}

struct sweeping {
	__u64 now;
	__u64 forget_ns;
	__u32 taken;
};

static long look(struct bpf_map *map, const struct tag_key *key, struct tag_flow *flow, struct sweeping *sweeping)
{
	/* A packet that came since the sweep began is of after its `now`. */
	if ((__s64)(sweeping->now - flow->last_ns) < (__s64)sweeping->forget_ns)
		return 0;
	if (!tell(key, flow, flow->last_ns, FLOW_IDLE))
		return 1; /* the next sweep goes on, when there is room again */
	bpf_map_delete_elem(map, key);
	sweeping->taken++;
	return 0;
}

/* Takes the flows that have been silent for forget_ns; returns how many. Run by the loader, now and then. */
SEC("syscall")
int sweep(void *unused)
{
	struct sweeping sweeping = {.now = bpf_ktime_get_ns()};
	__u32 zero = 0;
	struct tag_settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (!set)
		return 0;
	sweeping.forget_ns = set->forget_ns;
	bpf_for_each_map_elem(&flows, look, &sweeping, 0);
	return sweeping.taken;
}

char LICENSE[] SEC("license") = "GPL";
