/* What the programs of emulated links and emulation/fabric/{exact_ports,spacing_recorder}.py have in common. */
#ifndef BATON_LINKS_H
#define BATON_LINKS_H

#define TC_ACT_UNSPEC (-1) /* on to the next filter, then to the queues */
#define TC_ACT_SHOT 2
#define ETH_P_BATON 0x88B5
#define NS_PER_S 1000000000ULL
#define TIME_REAL 0	 /* linux/bpf.h: BPF_SKB_CLOCK_REALTIME, a type that a packet does not keep on its way */
#define TIME_MONOTONIC 1 /* BPF_SKB_CLOCK_MONOTONIC; BPF_SKB_TSTAMP_DELIVERY_MONO before Linux 6.11 */

#define CONTROL_BAND 1 /* the minor numbers of the root qdisc's classes */
#define DATA_BAND 2

struct exact_port {
	__u64 rate_bps;	       /* 0: packets get no times */
	__u64 free_ns;	       /* when the link has sent all that it was given */
	__u64 rest;	       /* of the division that gave free_ns: less than rate_bps */
	__u64 drops;	       /* packets for which the buffer had no room */
	__u32 bands;	       /* the handle of a root `prio`, with a band for control frames and one for data; 0: there is none */
	__u32 packets;	       /* the buffer */
	__u32 next;	       /* which of the departure times is the oldest */
	__u32 control_between; /* whether a control frame has come since the last packet */
};

/* Errors are counted in millionths of the ideal distance, those below 16 each, and larger ones in 16 buckets for each power of two. */
#define MOST_BITS 33 /* of the largest error that has a bucket of its own: 8,600 times the ideal distance */
#define FINE_BITS 4
#define BUCKETS ((MOST_BITS - FINE_BITS + 1) << FINE_BITS)
#define LONGEST_NS 100000000ULL /* a longer distance counts as this one: the products below fit 64 bits up to 100 Gb/s */

struct link_spacing {
	__u64 rate_bps;
	__u64 exact;	    /* whether departure.bpf.c says which packets follow another; else spacing.bpf.c finds out */
	__u64 last_ns;	    /* when the last packet left */
	__u64 bytes;	    /* that one's, and of control frames since */
	__u64 packets;
	__u64 back_to_back; /* packets that waited when the one before them left */
	__u64 worst;	    /* the largest error, in millionths */
	__u64 worst_ns;	    /* the largest error in ns, rounded down */
	__u64 buckets[BUCKETS];
};

#endif
