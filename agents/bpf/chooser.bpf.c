/* Attached to a cgroup: chooses each TCP connection's congestion control by its socket's mark. A connection with a deadline
 * gets baton_mcp. All others get baton_dctcp, and so do coflows and connections to a destination behind a gate that waits for
 * permission: MCP would take a rate that is held back between slots for a path that cannot carry it. The choice is made at
 * connect(), at listen() (a listener that needs ECN accepts it from SYNs that are ECT, and accepted connections inherit it),
 * when a connection is accepted, and when SO_MARK is set on a connection. */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "flowmark.h"

#define SOL_SOCKET 1
#define SO_MARK 36
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define AF_INET 2
#define AF_INET6 10

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} unmarked SEC(".maps"); /* whether connections without a mark get baton_dctcp too */

struct address {
	__u32 words[4]; /* IPv4 mapped into IPv6 (RFC 4291, section 2.5.5.2), in network byte order */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct address);
	__type(value, __u8);
} gated SEC(".maps"); /* addresses behind a gate that waits for permission */

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

static __always_inline int is_ours(__u32 mark)
{
	__u32 zero = 0, *all = bpf_map_lookup_elem(&unmarked, &zero);

	return mark || (all && *all);
}

/* If the name is not registered, the kernel refuses it and the connection keeps its congestion control. */
static __always_inline void choose_for(void *context, __u32 mark, int gated_path)
{
	char mcp[] = "baton_mcp", dctcp[] = "baton_dctcp";

	if (!is_ours(mark))
		return;
	if (mark_has_deadline(mark) && !gated_path)
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, mcp, sizeof(mcp));
	else
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, dctcp, sizeof(dctcp));
}

SEC("sockops")
int choose(struct bpf_sock_ops *event)
{
	struct bpf_sock *sock = event->sk; /* loaded once: the verifier would treat a second load as another pointer */

	switch (event->op) {
	case BPF_SOCK_OPS_NEEDS_ECN:
		/* A request has no socket yet, so no mark: accept ECN, for a listener that existed before this program. */
		event->reply = sock ? is_ours(sock->mark) : 1;
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: /* again: the kernel applies a route's congctl after TCP_CONNECT_CB */
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (sock) {
			__u32 ip6[4] = { event->remote_ip6[0], event->remote_ip6[1], event->remote_ip6[2], event->remote_ip6[3] };

			choose_for(event, sock->mark, is_gated(event->family, event->remote_ip4, ip6));
		}
		break;
	}
	return 1;
}

SEC("cgroup/setsockopt")
int choose_again(struct bpf_sockopt *call)
{
	struct bpf_sock *sock = call->sk;
	__u32 *mark = call->optval;

	if (call->level != SOL_SOCKET || call->optname != SO_MARK || !sock || sock->protocol != IPPROTO_TCP)
		return 1;
	if ((void *)(mark + 1) > call->optval_end)
		return 1;
	__u32 ip6[4] = { sock->dst_ip6[0], sock->dst_ip6[1], sock->dst_ip6[2], sock->dst_ip6[3] };

	choose_for(sock, *mark, is_gated(sock->family, sock->dst_ip4, ip6));
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
