/* Which TCP segments show that something was lost or marked on their way: those that are sent again, and those by which a sender
 * tells that it has cut its rate for a mark (CWR, RFC 3168 section 6.1.2; dctcp sets it, too). Sequence numbers alone say it, so a
 * VM's or a container's connection is seen as the host's own is. */
#ifndef BATON_RESENT_H
#define BATON_RESENT_H

#define BATON_CONNECTIONS 16384
#define BATON_SYN 0x02
#define BATON_CWR 0x80

/* Where a segment's header is, its flags, and how much payload follows it. */
struct baton_segment {
	__u32 header;
	__u32 payload;
	__u8 flags;
};

struct baton_connection {
	struct address source;
	struct address target;
	__u32 ports;
};

/* The sequence number that each connection sends next, since its SYN. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BATON_CONNECTIONS);
	__type(key, struct baton_connection);
	__type(value, __u32);
} baton_next SEC(".maps");

/* Forgets an earlier connection of the same ports, at a SYN: the new one may begin below it. */
static __always_inline void baton_begin(struct __sk_buff *skb, struct flow_key *key, struct baton_segment *segment)
{
	struct baton_connection connection = {.source = key->source, .target = key->target};

	if (!bpf_skb_load_bytes(skb, segment->header, &connection.ports, sizeof(connection.ports)))
		bpf_map_delete_elem(&baton_next, &connection);
}

/* Whether this segment, which has payload, shows a loss or a mark. */
static __always_inline int baton_lost(struct __sk_buff *skb, struct flow_key *key, struct baton_segment *segment)
{
	struct baton_connection connection = {.source = key->source, .target = key->target};
	__u8 start[8]; /* ports, sequence number */
	__u32 sequence, end, *next;

	if (bpf_skb_load_bytes(skb, segment->header, start, sizeof(start)))
		return 0;
	__builtin_memcpy(&connection.ports, start, 4);
	__builtin_memcpy(&sequence, start + 4, 4);
	end = bpf_ntohl(sequence) + segment->payload;
	next = bpf_map_lookup_elem(&baton_next, &connection);
	if (!next) {
		bpf_map_update_elem(&baton_next, &connection, &end, BPF_ANY);
		return 0;
	}
	if ((__s32)(end - *next) <= 0)
		return 1;
	*next = end;
	return segment->flags & BATON_CWR;
}

#endif
