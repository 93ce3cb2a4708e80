/* Tagger at a host's egress (clsact): writes into TCP and UDP packets the DSCP of the switches' priority queue for them.
 *
 * Karuna (SIGCOMM 2016), sections 4 and 5: a flow with a deadline (type 1) gets the top queue. A flow of known size (type 2)
 * gets a queue by what it has left to send and the thresholds beta, so it rises; Karuna takes the whole size until a promotion
 * (controller/priorities/completion_model.py says why not). Any other flow (type 3) sinks by the bytes it has sent and the
 * thresholds alpha. A flow past its deadline continues as type 2 or 3: in the top queue it would only delay others. Short flows
 * of the first band share the top queue: they have few of the bytes, and below it they would wait while flows with deadlines fill
 * the link.
 * The socket's mark (flowmark.h) has type and size; a packet of a guest behind a bridge has its mark by address and port
 * (guest_marks.h). A mark may name a coflow instead (type 4): the controller assigns its queue; until then the first FRESH_BYTES of
 * a flow have the first band, so that light coflows need not wait for the controller, and the rest the last one. After kappa
 * retransmission timeouts a flow of type 3 is promoted: it starts again at the top. Other packets pass unchanged, and every packet
 * continues to the next filter.
 *
 * TCP's segments without payload get the top queue whatever their flow is: behind a flow with a deadline in the opposite
 * direction, acknowledgements would wait until it ends, and the senders that need them would time out. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "classify.h"
#include "elapsed.h"
#include "flowmark.h"
#include "guest_marks.h"
#include "packet.h"

#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define TC_ACT_UNSPEC (-1)
#define UNKNOWN_END (1ULL << 62)
#define TCP_FIN 0x01
#define TCP_RST 0x04
#define COUNT(what) count(__builtin_offsetof(struct tag_counters, what) / sizeof(__u64))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tag_settings);
} settings SEC(".maps");

/* Writing an array's value is not atomic: the loader writes thresholds to the unused slot, then the index. */
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

/* Payload that this host has sent for a coflow to an address, retransmissions not counted. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, COFLOWS_SENT);
	__type(key, struct tag_coflow_sent);
	__type(value, __u64);
} coflows_sent SEC(".maps");

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
	__u32 high = mark_high(mark);

	return high == MARK_COFLOW ? 4 : high ? 1 : mark ? 2 : 3;
}

static __always_inline bool is_sized(__u32 mark)
{
	return type_of(mark) != 4 && mark_size(mark);
}

static __always_inline __u64 deadline_ns_of(__u32 mark)
{
	return (__u64)mark_high(mark) * 1000000;
}

static __always_inline bool is_late(const struct tag_flow *flow, __u64 now)
{
	return type_of(flow->mark) == 1 && elapsed(now, flow->message_ns) > deadline_ns_of(flow->mark);
}

static __always_inline void begin_flow(struct tag_flow *flow, struct tag_settings *set, __u32 mark, __u64 now)
{
	__u32 span = set->kappa_max - set->kappa_min + 1;

	flow->start_ns = flow->last_ns = now;
	flow->size = flow->base = flow->message_end = 0;
	flow->message_ns = now;
	flow->mark = mark;
	flow->queues = flow->timeouts = flow->promotions = flow->closed = 0;
	flow->kappa = set->kappa_min + (span > 1 ? bpf_get_prandom_u32() % span : 0);
}

/* Reports a flow's end, unless it sent no data or its end was reported before; false if the ring is full. */
static __always_inline bool report_end(const struct tag_key *key, struct tag_flow *flow, __u64 end_ns, __u8 reason)
{
	struct tag_end *end;

	if (flow->closed || !flow->size)
		return true;
	end = bpf_ringbuf_reserve(&ends, sizeof(*end), 0);
	if (!end) {
		COUNT(unreported);
		return false;
	}
	end->key = *key;
	end->size = flow->size;
	end->start_ns = flow->start_ns;
	end->duration_ns = elapsed(end_ns, flow->start_ns);
	end->mark = flow->mark;
	end->type = type_of(flow->mark);
	end->queues = flow->queues;
	end->reason = reason;
	end->promotions = flow->promotions;
	bpf_ringbuf_submit(end, 0);
	return true;
}

/* Counts a retransmission timeout; the kappa'th promotes the flow, unless its size is known: what is left decides already. */
static __always_inline void count_timeout(struct tag_flow *flow)
{
	COUNT(timeouts);
	if (is_sized(flow->mark) || ++flow->timeouts < flow->kappa)
		return;
	flow->timeouts = 0;
	if (flow->promotions < 255)
		flow->promotions++;
	flow->base = flow->size;
	COUNT(promotions);
}

static __always_inline void count_coflow(struct packet *packet, __u32 mark, __u64 fresh)
{
	struct tag_coflow_sent key = {.coflow = mark_low(mark)};
	__u64 *sent;

	__builtin_memcpy(key.target, packet->key.target, sizeof(key.target));
	sent = bpf_map_lookup_elem(&coflows_sent, &key);
	if (sent)
		__sync_fetch_and_add(sent, fresh);
	else
		bpf_map_update_elem(&coflows_sent, &key, &fresh, BPF_ANY);
}

/* Whether more of a message with a deadline was still to come after this silence: its deadline goes on. */
static __always_inline bool is_expected(const struct tag_flow *flow, __u64 silence)
{
	return type_of(flow->mark) == 1 && flow->size < flow->message_end && silence <= deadline_ns_of(flow->mark);
}

/* Adds the payload to its flow. Returns the bytes sent, which choose the band of type 3: up to the end of this packet, or of
 * its first segment, since a super-packet has one DSCP. `left` is what the flow's message has left from this packet on. */
static __always_inline __u64 add_payload(struct tag_flow *flow, struct tag_settings *set, struct packet *packet, __u32 segment,
					 __u64 now, __u64 *left)
{
	bool tcp = packet->key.protocol == IPPROTO_TCP;
	bool back = tcp && (__s32)(packet->sequence - flow->next) < 0;
	__u64 silence = elapsed(now, flow->last_ns), before;
	__u32 fresh = packet->payload;

	if (!packet->payload)
		return flow->size - flow->base;
	if (back && silence >= set->rto_ns) {
		count_timeout(flow);
	} else if (!back && set->idle_ns && silence >= set->idle_ns && flow->size && !is_expected(flow, silence)) {
		report_end(&packet->key, flow, flow->last_ns, FLOW_IDLE);
		begin_flow(flow, set, flow->mark, now);
	}
	/* Data beyond the marked size are another message; those after a silence longer than the deadline, too, as in baton_mcp. */
	if (!back && (flow->size >= flow->message_end || (type_of(flow->mark) == 1 && silence > deadline_ns_of(flow->mark)))) {
		flow->message_ns = now;
		flow->message_end = flow->size + (mark_size(flow->mark) ?: UNKNOWN_END);
	}
	*left = flow->message_end > flow->size ? flow->message_end - flow->size : 0; /* beyond the size: sent again */
	if (tcp) {
		__s32 advance = packet->sequence + packet->payload - flow->next;

		fresh = advance <= 0 ? 0 : (__u32)advance < fresh ? (__u32)advance : fresh;
		if (advance > 0)
			flow->next = packet->sequence + packet->payload;
	}
	before = flow->size - flow->base;
	if (silence)
		flow->last_ns = now;
	if (fresh && type_of(flow->mark) == 4)
		count_coflow(packet, flow->mark, fresh);
	flow->size += fresh; /* not atomic: one processor at a time sends a flow, except from a shared UDP socket */
	return before + (segment && segment < fresh ? segment : fresh);
}

/* The flow's state, created at its SYN or first payload; NULL for other packets of an unknown flow. */
static __always_inline struct tag_flow *find_flow(struct packet *packet, struct tag_settings *set, __u32 mark, bool by_guest,
						  __u64 now)
{
	struct tag_flow *flow = bpf_map_lookup_elem(&flows, &packet->key);
	bool syn = packet->flags & TCP_SYN;

	if (!flow) {
		struct tag_flow fresh = {.next = packet->sequence};

		if (!syn && !packet->payload)
			return NULL;
		begin_flow(&fresh, set, mark, now);
		fresh.by_guest = by_guest;
		bpf_map_update_elem(&flows, &packet->key, &fresh, BPF_NOEXIST);
		return bpf_map_lookup_elem(&flows, &packet->key);
	}
	if (syn && (flow->closed || flow->next != packet->sequence)) {
		report_end(&packet->key, flow, flow->last_ns, FLOW_REPLACED);
		begin_flow(flow, set, mark, now);
		flow->by_guest = by_guest;
		flow->next = packet->sequence;
	} else if (mark != flow->mark && (mark || flow->by_guest)) { /* the kernel's segments of a marked connection may carry 0 */
		report_end(&packet->key, flow, flow->last_ns, FLOW_REPLACED);
		begin_flow(flow, set, mark, now);
		flow->by_guest = by_guest;
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

static __always_inline __u32 queue_of(__u32 mark, __u64 left, __u64 sent, bool late)
{
	__u32 zero = 0, *index = bpf_map_lookup_elem(&active, &zero), slot;
	struct tag_thresholds *cuts;
	int type = late ? (is_sized(mark) ? 2 : 3) : type_of(mark);

	if (type == 4) {
		__u32 eight = mark_low(mark) / 8;
		struct tag_coflows *known = bpf_map_lookup_elem(&coflows, &eight);

		__u8 named = known ? known->below_all[mark % 8] : 0;

		return named ? QUEUES - named : sent <= FRESH_BYTES ? 1 : QUEUES - 1;
	}
	if (type == 1 || !index)
		return 0;
	slot = *index & 1;
	cuts = bpf_map_lookup_elem(&thresholds, &slot);
	if (!cuts)
		return 0;
	return type == 2 ? band(cuts->beta, cuts->count, left) : band(cuts->alpha, cuts->count, sent);
}

/* Whether a flow is short, by the size that its mark names and by what it has sent. */
static __always_inline bool is_short(struct tag_settings *set, __u32 mark, __u64 sent)
{
	return type_of(mark) != 4 && mark_size(mark) <= set->short_bytes && sent <= set->short_bytes;
}

static __always_inline bool is_bare(const struct packet *packet)
{
	return packet->key.protocol == IPPROTO_TCP && !packet->payload;
}

SEC("tc")
int tag(struct __sk_buff *skb)
{
	struct packet packet = {.offset = sizeof(struct ethhdr)};
	__u32 header = 0, length = 0, zero = 0, mark = skb->mark, queue;
	__u16 protocol = bpf_ntohs(skb->protocol);
	__u64 now, sent = 0, left;
	struct tag_settings *set;
	struct tag_flow *flow;
	enum reading reading;
	bool late = false, by_guest = false;

	if (skb->tc_index == BATON_RELEASED)
		return TC_ACT_UNSPEC;
	if (protocol == ETH_P_8021Q || protocol == ETH_P_8021AD) {
		__be16 inner;

		if (bpf_skb_load_bytes(skb, packet.offset + 2, &inner, 2)) {
			COUNT(malformed);
			return TC_ACT_UNSPEC;
		}
		protocol = bpf_ntohs(inner);
		packet.offset += 4;
	}
	reading = BATON_UNTOUCHED;
	if (protocol == ETH_P_IP || protocol == ETH_P_IPV6)
		reading = read_network(skb, protocol, &packet, &header, &length);
	if (reading == BATON_READ)
		reading = read_transport(skb, &packet, header, length);
	set = bpf_map_lookup_elem(&settings, &zero);
	if (reading != BATON_READ || !set) {
		if (reading == BATON_MALFORMED)
			COUNT(malformed);
		else
			COUNT(untouched);
		return TC_ACT_UNSPEC;
	}
	now = bpf_ktime_get_ns();
	if (!mark && skb->ingress_ifindex) { /* forwarded */
		mark = mark_of_guest(&packet.key, skb->ingress_ifindex, now);
		by_guest = mark;
	}
	left = mark_size(mark);
	flow = find_flow(&packet, set, mark, by_guest, now);
	if (flow) {
		sent = add_payload(flow, set, &packet, skb->gso_size, now, &left);
		mark = flow->mark;
		late = is_late(flow, now);
	}
	queue = is_bare(&packet) ? 0 : queue_of(mark, left, sent, late) & (QUEUES - 1);
	if (queue == 1 && flow && is_short(set, mark, flow->base + sent))
		queue = 0;
	write_dscp(skb, &packet, set->dscp[queue]);
	COUNT(tagged);
	if (flow) {
		if (!is_bare(&packet))
			flow->queues |= 1 << queue;
		if (packet.flags & (TCP_FIN | TCP_RST) &&
		    report_end(&packet.key, flow, now, packet.flags & TCP_RST ? FLOW_RST : FLOW_FIN))
			flow->closed = 1;
	}
	return TC_ACT_UNSPEC;
}

struct sweeping {
	__u64 now;
	__u64 forget_ns;
	__u32 removed;
};

static long sweep_flow(struct bpf_map *map, const struct tag_key *key, struct tag_flow *flow, struct sweeping *sweeping)
{
	/* Signed: a packet sent since the sweep began is later than its `now`. */
	if ((__s64)(sweeping->now - flow->last_ns) < (__s64)sweeping->forget_ns)
		return 0;
	if (!report_end(key, flow, flow->last_ns, FLOW_IDLE))
		return 1; /* the next sweep continues, when the ring has room again */
	bpf_map_delete_elem(map, key);
	sweeping->removed++;
	return 0;
}

/* Removes the flows that have been silent for forget_ns; returns how many. The loader runs it at intervals. */
SEC("syscall")
int sweep(void *unused)
{
	struct sweeping sweeping = {.now = bpf_ktime_get_ns()};
	__u32 zero = 0;
	struct tag_settings *set = bpf_map_lookup_elem(&settings, &zero);

	if (!set)
		return 0;
	sweeping.forget_ns = set->forget_ns;
	bpf_for_each_map_elem(&flows, sweep_flow, &sweeping, 0);
	return sweeping.removed;
}

char LICENSE[] SEC("license") = "GPL";
