/* Shared by the classifier of a switch port and its loader; controller/switch_queues/port.py has the same numbers and layouts. */
#ifndef BATON_SWITCH_QUEUES_H
#define BATON_SWITCH_QUEUES_H

#define DATA_QUEUES 8
#define NETWORK_BAND 8 /* ARP, ICMP, LLDP, spanning tree: served before the data */
#define CONTROL_BAND 9 /* Baton's own frames: served first */
#define BANDS 10

/* Handles and classes: the root shapes to the link's rate and has the bands; the qdisc below it has the data queues, each with its
 * own fifo. */
#define ROOT_QDISC 0xBA700000
#define DATA_QDISC 0xBA730000
#define CONTROL_FIFO 0xBA710000
#define NETWORK_FIFO 0xBA720000
#define DATA_FIFO(queue) (0xBA800000 + ((queue) << 16))
#define CONTROL_CLASS (ROOT_QDISC | 2)
#define NETWORK_CLASS (ROOT_QDISC | 4)
#define DATA_CLASS(queue) (DATA_QDISC | ((queue) + 1))

struct queue_settings {
	__u32 shared_packets;	     /* of all data queues together, without what is reserved */
	__u32 band_packets;	     /* of the control band, and of the network band */
	__u32 threshold_bytes;	     /* marks CE above it; all ones: never */
	__u32 per_queue;	     /* whether the threshold applies to each queue, not to the port */
	__u32 share_256[DATA_QUEUES]; /* in 256ths: a queue may hold so many times what is free (DT); 0: no limit */
	__u32 reserved[DATA_QUEUES]; /* packets of each queue, on which the others don't count */
	__u8 queue[64];		     /* by DSCP */
};

struct queue_counts {
	__u64 drops;
	__u64 marks;
};

#endif
