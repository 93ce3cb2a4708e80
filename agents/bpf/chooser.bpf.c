/* Attached to a cgroup: chooses each TCP connection's congestion control by its socket's mark. A connection with a deadline
 * gets one (baton_mcp), all others another (baton_dctcp), and so do coflows and connections to a destination behind a gate that
 * waits for permission (gated.h). Where MCP is a program of its own (mcp_callbacks.bpf.c), both are the kernel's dctcp. The choice
 * is made at connect(), at listen() (a listener that needs ECN accepts it from SYNs that are ECT, and accepted connections
 * inherit it), when a connection is accepted, and when SO_MARK is set on a connection. */
#include "kernel.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "flowmark.h"
#include "gated.h"

#define SOL_SOCKET 1
#define SO_MARK 36
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define NAME_BYTES 16

struct mark_choice {
	__u32 unmarked; /* whether connections without a mark get `rest` too */
	char deadline[NAME_BYTES];
	char rest[NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mark_choice);
} choice SEC(".maps");

static __always_inline struct mark_choice *choice_for(__u32 mark)
{
	__u32 zero = 0;
	struct mark_choice *found = bpf_map_lookup_elem(&choice, &zero);

	return found && (mark || found->unmarked) ? found : NULL;
}

/* If the name is not registered, the kernel refuses it and the connection keeps its congestion control. */
static __always_inline void choose_for(void *context, __u32 mark, int gated_path)
{
	struct mark_choice *chosen = choice_for(mark);

	if (!chosen)
		return;
	if (mark_has_deadline(mark) && !gated_path)
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, chosen->deadline, NAME_BYTES);
	else
		bpf_setsockopt(context, SOL_TCP, TCP_CONGESTION, chosen->rest, NAME_BYTES);
}

SEC("sockops")
int choose(struct bpf_sock_ops *event)
{
	struct bpf_sock *sock = event->sk; /* loaded once: the verifier would treat a second load as another pointer */

	switch (event->op) {
	case BPF_SOCK_OPS_NEEDS_ECN:
		/* A request has no socket yet, so no mark: accept ECN, for a listener that existed before this program. */
		event->reply = sock ? choice_for(sock->mark) != NULL : 1;
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
	__u8 *option = call->optval;
	__u32 mark;

	if (call->level != SOL_SOCKET || call->optname != SO_MARK || !sock || sock->protocol != IPPROTO_TCP)
		return 1;
	if ((void *)(option + sizeof(mark)) > call->optval_end)
		return 1;
	__builtin_memcpy(&mark, option, sizeof(mark)); /* by bytes: the verifier of some kernels takes it as not aligned */
	__u32 ip6[4] = { sock->dst_ip6[0], sock->dst_ip6[1], sock->dst_ip6[2], sock->dst_ip6[3] };

	choose_for(sock, mark, is_gated(sock->family, sock->dst_ip4, ip6));
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
