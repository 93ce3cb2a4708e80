/* The marks of guests' flows. A guest's socket is in another kernel, so its packets carry no mark here; the agent keeps marks by
 * address and port instead (agents/guests/), for packets that a bridge forwards to the tagger's interface. For the tagger alone. */
#ifndef BATON_GUEST_MARKS_H
#define BATON_GUEST_MARKS_H

#include "tagger.h"

/* A shape says what a key leaves open; the tagger looks for the shapes that are in use, the lowest first. */
#define ANY_BRIDGE_PORT 1
#define ANY_SOURCE_PORT 2
#define ANY_TARGET_PORT 4
#define SHAPES 8

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GUEST_MARKS);
	__type(key, struct guest_key);
	__type(value, struct guest_mark);
} guest_marks SEC(".maps");

/* Bit s: there are marks of shape s. 0: there is nothing to look for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} guest_shapes SEC(".maps");

/* The mark for a packet that came at a bridge's port; 0 for none. */
static __always_inline __u32 mark_of_guest(const struct tag_key *flow, __u32 bridge_port, __u64 now)
{
	__u32 zero = 0, *shapes = bpf_map_lookup_elem(&guest_shapes, &zero), shape;
	struct guest_key key;

	if (!shapes || !*shapes)
		return 0;
	__builtin_memcpy(key.source, flow->source, sizeof(key.source));
	__builtin_memcpy(key.target, flow->target, sizeof(key.target));
	for (shape = 0; shape < SHAPES; shape++) {
		struct guest_mark *found;

		if (!(*shapes >> shape & 1))
			continue;
		key.source_port = shape & ANY_SOURCE_PORT ? 0 : flow->source_port;
		key.target_port = shape & ANY_TARGET_PORT ? 0 : flow->target_port;
		key.bridge_port = shape & ANY_BRIDGE_PORT ? 0 : bridge_port;
		found = bpf_map_lookup_elem(&guest_marks, &key);
		if (found && now < found->until_ns)
			return found->mark;
	}
	return 0;
}

#endif
