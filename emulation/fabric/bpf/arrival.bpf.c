/* A switch's port that faces a host: a packet that has come is no longer its sender's. On a wire it left the sender's socket when it
 * left the interface; through a veth it stays in the sender's buffer until somebody receives or drops it, so that queues in the
 * fabric would hold back the sender, as no real ones do. A copy belongs to no socket: it takes the packet's place. */
#define BPF_NO_PRESERVE_ACCESS_INDEX /* what is read here is the same in all kernels: loading needs no kernel's types */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "links.h"

#define COPY 0xBA70 /* the tc_index of a copy on its second way through this program */
#define TO_INGRESS 1 /* linux/bpf.h: BPF_F_INGRESS */

SEC("tc")
int baton_arrival(struct __sk_buff *skb)
{
	if (skb->tc_index == COPY) {
		skb->tc_index = 0;
		return TC_ACT_UNSPEC;
	}
	skb->tc_index = COPY;
	if (!bpf_clone_redirect(skb, skb->ifindex, TO_INGRESS))
		return TC_ACT_SHOT;
	skb->tc_index = 0;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
