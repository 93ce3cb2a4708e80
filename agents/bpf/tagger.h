/* Layouts shared by the tagger and its loader, agents/priorities/tagger.py. Sizes are payload bytes, times nanoseconds of the
 * monotonic clock; addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2). */
#ifndef BATON_TAGGER_H
#define BATON_TAGGER_H

#define QUEUES 8     /* queue 0 is for type 1 and short flows, queues 1 to 7 are the bands of types 2 and 3 */
#define THRESHOLDS 6 /* at most; for seven bands */
#define TAGGED_FLOWS 131072
#define COFLOWS (1 << 20) /* as many ids as a mark holds */
#define FRESH_BYTES 65536 /* of each flow of a coflow that the controller has not named yet, in the first band */
#define COFLOWS_SENT 16384 /* coflows times destinations that are counted at once; the least recently used one goes */
#define GUEST_MARKS 4096

enum end_reason {
	FLOW_FIN = 1,
	FLOW_RST = 2,
	FLOW_IDLE = 3,	   /* nothing sent for idle_ns (seen at the next packet) or forget_ns (seen by a sweep) */
	FLOW_REPLACED = 4, /* a new connection of the same 5-tuple, or a new mark */
};

struct tag_settings {
	__u64 rto_ns;	 /* sequence numbers that go back after this silence are a retransmission timeout */
	__u64 idle_ns;	 /* new data after this silence is a new flow on the same connection; 0: never */
	__u64 forget_ns; /* a sweep removes flows that have been silent for this time */
	__u64 short_bytes; /* up to so many a flow of the first band shares the queue of type 1; 0: none does */
	__u32 kappa_min; /* timeouts that promote a flow: drawn for each flow, uniform on kappa_min..kappa_max */
	__u32 kappa_max;
	__u8 dscp[QUEUES];
};

struct tag_thresholds {
	__u32 version;
	__u32 count;
	__u64 beta[THRESHOLDS];	 /* type 2, on what is left */
	__u64 alpha[THRESHOLDS]; /* type 3, on bytes sent */
};

struct tag_coflows { /* of eight ids: an array's values are multiples of 8 bytes */
	__u8 below_all[8]; /* QUEUES minus the coflow's queue; 0 for a coflow that the controller has not named */
};

struct tag_coflow_sent {
	__u8 target[16];
	__u32 coflow;
};

struct tag_key {
	__u8 source[16];
	__u8 target[16];
	__be16 source_port;
	__be16 target_port;
	__u8 protocol;
	__u8 zero[3];
};

struct tag_flow {
	__u64 start_ns;
	__u64 last_ns; /* of the last packet with payload */
	__u64 size;    /* new bytes: retransmitted ones do not count twice */
	__u64 base;    /* a promotion sets it to `size`: bytes sent since then are size - base */
	__u64 message_ns;  /* when the message began: a deadline counts from here */
	__u64 message_end; /* in bytes of `size`; later data are another message with the same mark */
	__u32 mark;
	__u32 next; /* TCP's highest sequence number sent, plus one */
	__u8 queues; /* bit q: packets went to queue q */
	__u8 kappa;
	__u8 timeouts; /* since the last promotion */
	__u8 promotions;
	__u8 closed; /* its end was reported */
	__u8 by_guest; /* its mark is of the table of guests' marks, and counts only as long as it is there */
	__u8 zero[2];
};

struct guest_key { /* which forwarded packets a guest's mark is for; 0 stands for any port of TCP or UDP, and any bridge port */
	__u8 source[16];
	__u8 target[16];
	__be16 source_port;
	__be16 target_port;
	__u32 bridge_port; /* the index of the interface at which they came */
};

struct guest_mark {
	__u64 until_ns;
	__u32 mark;
	__u32 zero;
};

struct tag_end {
	struct tag_key key;
	__u64 size;
	__u64 start_ns;
	__u64 duration_ns;
	__u32 mark;
	__u8 type;
	__u8 queues;
	__u8 reason;
	__u8 promotions;
};

struct tag_counters {
	__u64 tagged;
	__u64 untouched; /* options, fragments, extension headers, other protocols: not an error */
	__u64 malformed; /* headers that contradict themselves or are cut off */
	__u64 timeouts;
	__u64 promotions;
	__u64 unreported; /* ends that were lost because the ring was full */
};

#endif
