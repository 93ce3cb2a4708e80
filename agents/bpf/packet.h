/* Reads the headers of a packet of TCP or UDP over IPv4 or IPv6, and writes its DSCP. For the tagger alone: keys are as in its
 * table. */
#ifndef BATON_PACKET_H
#define BATON_PACKET_H

#include "tagger.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define TCP_SYN 0x02
#define ECN_MASK 0x03

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

enum reading { BATON_READ, BATON_UNTOUCHED, BATON_MALFORMED };

struct tcp_start {
	__be16 source, target;
	__be32 sequence, acknowledged;
	__u8 data_offset, flags;
	__be16 window;
};

/* Copies a header of the type of *to; true if the packet ends before. Copies directly where the headers are linear, as they
 * mostly are: the helper's call costs more than everything else here. */
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

/* Reads the network header; returns the bytes from the transport header to the packet's end in *length. */
static __always_inline enum reading read_network(struct __sk_buff *skb, __u16 protocol, struct packet *packet, __u32 *header,
						 __u32 *length)
{
	if (protocol == ETH_P_IP) {
		struct iphdr *ip = &packet->ip.v4;
		__u32 total;

		if (TAKE(skb, packet->offset, ip) || ip->version != 4 || ip->ihl < 5)
			return BATON_MALFORMED;
		if (ip->ihl > 5 || ip->frag_off & bpf_htons(0x3fff))
			return BATON_UNTOUCHED;
		total = bpf_ntohs(ip->tot_len);
		if (!total) /* a super-packet beyond 64 KB (BIG TCP) */
			total = skb->len - packet->offset;
		if (total < sizeof(*ip))
			return BATON_MALFORMED;
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
			return BATON_MALFORMED;
		packet->version = 6;
		__builtin_memcpy(packet->key.source, &ip->saddr, 16);
		__builtin_memcpy(packet->key.target, &ip->daddr, 16);
		packet->key.protocol = ip->nexthdr;
		*header = packet->offset + sizeof(*ip);
		*length = bpf_ntohs(ip->payload_len);
		if (!*length) /* the same, since Linux 7.0; before, such a packet has an extension header */
			*length = skb->len - *header;
	}
	if (packet->key.protocol != IPPROTO_TCP && packet->key.protocol != IPPROTO_UDP)
		return BATON_UNTOUCHED;
	return *header + *length > skb->len ? BATON_MALFORMED : BATON_READ;
}

static __always_inline enum reading read_transport(struct __sk_buff *skb, struct packet *packet, __u32 header, __u32 length)
{
	__u32 own;

	if (packet->key.protocol == IPPROTO_TCP) {
		struct tcp_start tcp;

		if (length < sizeof(struct tcphdr) || TAKE(skb, header, &tcp))
			return BATON_MALFORMED;
		own = (tcp.data_offset >> 4) * 4;
		if (own < sizeof(struct tcphdr))
			return BATON_MALFORMED;
		packet->key.source_port = tcp.source;
		packet->key.target_port = tcp.target;
		packet->flags = tcp.flags;
		packet->sequence = bpf_ntohl(tcp.sequence) + !!(tcp.flags & TCP_SYN);
	} else {
		struct udphdr udp;

		own = sizeof(udp);
		if (TAKE(skb, header, &udp))
			return BATON_MALFORMED;
		packet->key.source_port = udp.source;
		packet->key.target_port = udp.dest;
	}
	if (own > length)
		return BATON_MALFORMED;
	packet->payload = length - own;
	return BATON_READ;
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

#endif
