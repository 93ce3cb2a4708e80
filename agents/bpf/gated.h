/* Destinations behind a gate that waits for permission: MCP would take a rate that is held back between slots for a path that
 * cannot carry it. Shared by the programs at a cgroup. Include it after vmlinux.h and the helpers. */
#ifndef BATON_GATED_H
#define BATON_GATED_H

#define AF_INET 2
#define GATED_ADDRESSES 65536

struct address {
	__u32 words[4]; /* IPv4 mapped into IPv6 (RFC 4291, section 2.5.5.2), in network byte order */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH); /* allocated at once, about 5 MB: a map that grows fails in virtual time */
	__uint(max_entries, GATED_ADDRESSES);
	__type(key, struct address);
	__type(value, __u8);
} gated SEC(".maps");

static __always_inline int is_gated(__u32 family, __u32 ip4, const __u32 *ip6)
{
	struct address to = {};

	if (family == AF_INET) {
		to.words[2] = bpf_htonl(0xffff);
		to.words[3] = ip4;
	} else {
		__builtin_memcpy(&to, ip6, sizeof(to));
	}
	return bpf_map_lookup_elem(&gated, &to) != 0;
}

#endif
