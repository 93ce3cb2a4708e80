/* What the classifier and the agent share. Sizes are bytes, times nanoseconds; addresses are 16 bytes, IPv4 as
 * ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2). agents/queues/classifier.py reads and writes the same layouts. */
#ifndef BATON_CLASSIFY_H
#define BATON_CLASSIFY_H

#define ROOT_MAJOR 1
#define CONTROL_MINOR 2 /* control, ARP, small flows: served first, never gated */
#define OTHER_MINOR 3   /* not between members */
#define KICK_MINOR 4    /* no class: what is only to wake the queues */
#define MAX_NODES 16384
#define MAX_FLOWS 65536
#define MAX_DSCPS 64

enum event_kind { NEW_FLOW = 1, BACKLOGGED = 2, URGENT = 3 };
enum armed { FOR_ANY = 1, FOR_URGENT = 2 };

struct settings {
	__u64 mice_bytes; /* what a V2V flow may send at once without being large */
	__u64 mice_rate;  /* bytes per second at which that allowance comes back */
	__u32 priorities; /* DSCPs are priorities: each has a queue of its own, and the highest is for flows with a deadline */
	__u32 urgent_dscp;
};

struct address {
	__u8 bytes[16];
};

struct flow_key {
	struct address source;
	struct address target;
	__u32 icmp; /* ICMP has an allowance of its own, so that a ping never waits for its flow's data */
};

struct flow {
	__u64 tokens; /* what is left of the allowance */
	__u64 stamp;
	__u64 bytes;
	__u64 packets;
	__u64 dscps; /* that were seen, a bit for each */
	__u32 large;
	__u32 node;
};

struct destination {
	__u64 bytes; /* of large flows */
	__u32 armed; /* tell the agent of the next packet, or of the next urgent one */
	__u32 unused;
};

struct event {
	__u32 kind;
	__u32 node;
	__u32 dscp; /* of a new flow, where DSCPs are priorities */
	struct address source;
	struct address target;
};

#endif
