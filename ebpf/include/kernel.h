/* What Baton's eBPF programs know of the kernel: the formats that it promises to user space, and those few fields of its own structures
 * that a program reads. Where these fields are in the kernel that loads the program, libbpf finds out from the kernel's types (CO-RE).
 *
 * So a program compiles without the types of any kernel (vmlinux.h): no name of ours clashes with one of the tens of thousands there,
 * and one object is good for all kernels. A structure here needs only the fields that are used, under the kernel's own names. */
#ifndef BATON_KERNEL_H
#define BATON_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <linux/udp.h>

struct bpf_map;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
};

struct Qdisc {
	__u32 handle;
	struct hlist_node hash;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct net_device {
	struct Qdisc *qdisc;
	struct hlist_head qdisc_hash[16];
};

struct sk_buff {
	struct net_device *dev;
};

#pragma clang attribute pop

#endif
