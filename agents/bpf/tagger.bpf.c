/* Tagger at a host's egress (clsact): which of the switches' priority queues a packet of TCP or UDP goes to, by its DSCP.
 *
 * Karuna (SIGCOMM 2016), sections 4 and 5: a flow with a deadline (type 1) has the top queue, one of known size (type 2) is
 * split on it by thresholds beta, any other (type 3) sinks by thresholds alpha on the bytes it has sent. A flow past its
 * deadline goes on as type 2 or 3: in the top queue it would only make others late. Type and size are the socket's mark
 * (protocol/flowmark.py). A mark may name a coflow instead (type 4): its queue is the controller's, and the last one if the
 * controller has not said. kappa retransmission timeouts promote a flow: type 2 is split again on what is
 * left, type 3 starts again at the top. Everything else passes as it is, and every packet goes on to the next filter. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "packet.h"

#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define TC_ACT_UNSPEC (-1)
#define SIZE_BITS 20 /* of the mark, in KB; the deadline is above */
#define COFLOW_FIELD 0xfff /* in the deadline's place: the low bits are a coflow's id */
#define WITHOUT_END (1ULL << 62)
#define TCP_FIN 0x01
#define TCP_RST 0x04
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

static __always_inline __u64 deadline_ns_of(__u32 mark)
{
	return (__u64)(mark >> SIZE_BITS) * 1000000;
}

static __always_inline bool is_late(const struct tag_flow *flow, __u64 now)
{
	return type_of(flow->mark) == 1 && now - flow->message_ns > deadline_ns_of(flow->mark);
}

static __always_inline void begin(struct tag_flow *flow, struct tag_settings *set, __u32 mark, __u64 now)
{
	__u32 span = set->kappa_max - set->kappa_min + 1;

	flow->start_ns = flow->last_ns = now;
	flow->size = flow->base = flow->message_end = 0;
	flow->message_ns = now;
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
	/* As baton_mcp counts: data beyond the size in the mark, or after a silence longer than the deadline, has a deadline anew. */
	if (!back && type_of(flow->mark) == 1 &&
	    (flow->size >= flow->message_end || silence > deadline_ns_of(flow->mark))) {
		flow->message_ns = now;
		flow->message_end = flow->size + (size_of(flow->mark) ?: WITHOUT_END);
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

static __always_inline __u32 queue_of(__u32 mark, __u64 split, __u64 sent, bool late)
{
	__u32 zero = 0, *index = bpf_map_lookup_elem(&active, &zero), slot;
	struct tag_thresholds *cuts;
	int type = late ? (size_of(mark) ? 2 : 3) : type_of(mark);

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
	bool late = false;

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
		late = is_late(flow, now);
	}
	queue = queue_of(mark, split, sent, late) & (QUEUES - 1);
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
