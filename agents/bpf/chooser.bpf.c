/* At a cgroup: chooses each TCP connection's congestion control from its socket's mark (protocol/flowmark.py): baton_mcp with a
 * deadline, baton_dctcp without one, for a coflow's too, and for who is reached through a gate that waits for permission: a rate
 * that is held back between slots looks to MCP like a path that cannot keep it. At connect(), at listen() (a listener that needs ECN takes it from SYNs
 * that are ECT, and those accepted take after it), when a connection is accepted, and when SO_MARK is set on a connection. */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SIZE_BITS 20
#define COFLOW_FIELD 0xfff
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
} unmarked SEC(".maps"); /* whether connections without a mark are chosen for too */

struct address {
	__u32 words[4]; /* IPv4 mapped into IPv6 (RFC 4291, section 2.5.5.2), in network byte order */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct address);
	__type(value, __u8);
} gated SEC(".maps"); /* who is reached through a gate that waits for permission */

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

static __always_inline int has_deadline(__u32 mark)
{
	__u32 deadline_ms = mark >> SIZE_BITS;

	return deadline_ms && deadline_ms != COFLOW_FIELD;
}

/* A name that is not registered is refused, and the connection stays as it was. */
static __always_inline void choose_for(void *context, __u32 mark, int waits)
{
	char mcp[] = "baton_mcp", dctcp[] = "baton_dctcp";

	if (!is_ours(mark))
		return;
	if (has_deadline(mark) && !waits)
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, mcp, sizeof(mcp));
	else
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, dctcp, sizeof(dctcp));
}

SEC("sockops")
int choose(struct bpf_sock_ops *event)
{
	struct bpf_sock *sock = event->sk; /* loaded once, or the verifier takes the second for another one */

	switch (event->op) {
	case BPF_SOCK_OPS_NEEDS_ECN:
		/* A request has no socket of its own yet, so no mark: ECN is taken, for a listener that was there before. */
		event->reply = sock ? is_ours(sock->mark) : 1;
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: /* once more: a route's congctl comes after TCP_CONNECT_CB */
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
