/* The layouts that the classifier and the agent share. Sizes are bytes, times nanoseconds; addresses are 16 bytes, IPv4 as
 * ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2). agents/queues/classifier.py reads and writes the same layouts. */
#ifndef BATON_CLASSIFY_H
#define BATON_CLASSIFY_H

#define ROOT_MAJOR 1
#define CONTROL_MINOR 2 /* the host's own control frames, ARP, LLDP: served first, never gated */
#define OTHER_MINOR 3   /* not between members */
#define WAKEUP_MINOR 4  /* no class: frames that only wake the queues */
#define SMALL_MINOR 5   /* small flows, bare acknowledgements: served next, never gated */
#define MAX_NODES 16384
#define MAX_FLOWS 65536
#define MAX_DSCPS 64
#define BATON_RELEASED 0xBA71 /* the tc_index of a copy (released.h): the programs at this interface have seen its packet */

enum event_kind { BATON_NEW_FLOW = 1, BATON_BACKLOGGED = 2, BATON_URGENT = 3 };
enum armed { BATON_FOR_ANY = 1, BATON_FOR_URGENT = 2 };

struct settings {
	__u64 mice_bytes; /* a V2V flow's allowance: so much it may send at once without being large */
	__u64 mice_rate;  /* bytes per second at which that allowance comes back */
	__u64 mice_whole; /* nanoseconds of silence after which it is whole: up to then their number times the rate fits 64 bits */
	__u32 priorities; /* DSCPs are priorities: each has a queue of its own, and the highest is for flows with a deadline */
	__u32 urgent_dscp;
};

struct address {
	__u8 bytes[16];
};

struct flow_key {
	struct address source;
	struct address target;
	__u32 icmp; /* ICMP has an allowance of its own, so that a ping never waits for its flow's data; so has guests' ARP */
};

struct flow {
	__u64 tokens; /* bytes left of the allowance */
	__u64 stamp;
	__u64 bytes;
	__u64 packets;
	__u64 dscps; /* those that the agent was told of, a bit for each (without priorities the lowest alone) */
	__u64 scheduled; /* the same, of DSCPs with a queue of their own */
	__u32 large;
	__u32 node; /* where `dscps` went */
};

struct destination {
	__u64 bytes; /* of large flows */
	__u32 armed; /* enum armed: send an event at the next packet, or at the next urgent one; 0: none */
	__u32 lost; /* segments to it by which TCP showed a loss or a mark: see resent.h */
};

struct event {
	__u32 kind;
	__u32 node;
	__u32 dscp; /* of a new flow, where DSCPs are priorities */
	struct address source;
	struct address target;
};

#endif
