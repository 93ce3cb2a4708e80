/* Destinations behind a gate that waits for permission: MCP would take a rate that is held back between slots for a path that
 * cannot carry it. Shared by the programs at a cgroup. Include it after kernel.h and the helpers. */
#ifndef BATON_GATED_H
#define BATON_GATED_H

#include "address.h"

#define GATED_ADDRESSES 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH); /* allocated at once, about 5 MB: a map that grows fails in virtual time */
	__uint(max_entries, GATED_ADDRESSES);
	__type(key, struct address);
	__type(value, __u8);
} gated SEC(".maps");

static __always_inline int is_gated(__u32 family, __u32 ip4, const __u32 *ip6)
{
	struct address to = address_of(family, ip4, ip6);

	return bpf_map_lookup_elem(&gated, &to) != 0;
}

#endif
