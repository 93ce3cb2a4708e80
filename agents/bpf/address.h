/* Internet addresses as keys of maps. Include it after the kernel's types and the helpers. */
#ifndef BATON_ADDRESS_H
#define BATON_ADDRESS_H

#define AF_INET 2

struct address {
	__u32 words[4]; /* IPv4 mapped into IPv6 (RFC 4291, section 2.5.5.2), in network byte order */
};

static __always_inline struct address address_of(__u32 family, __u32 ip4, const __u32 *ip6)
{
	struct address found = {};

	if (family == AF_INET) {
		found.words[2] = bpf_htonl(0xffff);
		found.words[3] = ip4;
	} else {
		__builtin_memcpy(&found, ip6, sizeof(found));
	}
	return found;
}

#endif
