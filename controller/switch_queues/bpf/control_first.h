/* Shared by the programs that let control frames go first and their loader, controller/switch_queues/control_first.py. */
#ifndef BATON_CONTROL_FIRST_H
#define BATON_CONTROL_FIRST_H

#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88A8
#define ETH_P_BATON 0x88B5
#define MAX_PATHS 16384
#define MAX_PORTS 1024
#define MAX_STRANGERS 256

struct station {
	__u8 address[6];
	__u16 unused;
};

struct path_key { /* a control frame as it enters a switch */
	__u32 ifindex;
	__u8 target[6];
	__u8 source[6];
};

struct control_path {
	__u32 out;    /* the interface by which it leaves; 0: all of the switch but its own */
	__u32 unused;
	__u64 passed_ns; /* when the switch itself got the last one */
};

struct control_settings {
	__u32 priority;	    /* of control frames, as the port's queue knows it */
	__u32 most_bytes;   /* data waits while less than this waits at the port; 0: as much as the queue takes */
	__u32 most_packets; /* the same in packets */
	__u32 unused;
};

struct control_counts {
	__u64 refused; /* data, to keep room for control frames */
	__u64 dropped; /* by the queue */
};

#endif
