/* A port of a switch that runs in userspace (XDP, generic): sends Baton's control frames on in the kernel, so that they wait neither
 * in the switch's packet sockets nor in a port's queue, whatever the data do.
 *
 * It forwards only what the switch's own OpenFlow table would forward the same way: the controller writes `paths`, exact in port,
 * source and destination. Every other frame goes to the switch, which drops and counts those that are forged. Now and then a frame
 * of each path goes there, too: so the switch's entries do not age. Who speaks to a coordinator on no known path is noted, for the
 * controller to learn: the frame itself may be lost in the switch. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "control_first.h"

#define PASS_EVERY_NS 60000000000ULL /* a fifth of the ageing time, controller/openflow/tables/forwarding.py */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PATHS);
	__type(key, struct path_key);
	__type(value, struct control_path);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, struct station);
	__type(value, __u32);
} coordinators SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_STRANGERS);
	__type(key, struct path_key);
	__type(value, __u32);
} strangers SEC(".maps");

struct frame_start {
	__u8 target[6];
	__u8 source[6];
	__be16 protocol;
	__be16 tag, inner; /* of a tagged frame */
} __attribute__((packed));

static __always_inline bool is_coordinator(const __u8 *address)
{
	struct station station = {};

	__builtin_memcpy(station.address, address, sizeof(station.address));
	return bpf_map_lookup_elem(&coordinators, &station) != NULL;
}

SEC("xdp")
int baton_path(struct xdp_md *context)
{
	struct frame_start *frame = (void *)(long)context->data;
	struct path_key key = {.ifindex = context->ingress_ifindex};
	struct control_path *path;
	__u64 now;

	if ((void *)(frame + 1) > (void *)(long)context->data_end)
		return XDP_PASS;
	if (frame->protocol != bpf_htons(ETH_P_BATON) &&
	    !(frame->protocol == bpf_htons(ETH_P_8021Q) && frame->inner == bpf_htons(ETH_P_BATON)))
		return XDP_PASS;
	__builtin_memcpy(key.target, frame->target, sizeof(key.target));
	__builtin_memcpy(key.source, frame->source, sizeof(key.source));
	path = bpf_map_lookup_elem(&paths, &key);
	if (!path) {
		__u32 once = 1;

		if (is_coordinator(key.target) && !is_coordinator(key.source))
			bpf_map_update_elem(&strangers, &key, &once, BPF_ANY);
		return XDP_PASS;
	}
	now = bpf_ktime_get_ns();
	if (now - path->passed_ns > PASS_EVERY_NS) {
		path->passed_ns = now;
		return XDP_PASS;
	}
	if (path->out)
		return bpf_redirect_map(&ports, path->out, XDP_PASS);
	return bpf_redirect_map(&ports, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
}

char LICENSE[] SEC("license") = "GPL";
