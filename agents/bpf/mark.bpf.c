/* At a cgroup: gives every new socket in it the flow mark of `baton mark` or `baton coflow run`. Before a coflow's deadline the
 * mark carries the time that is left; after it, the mark is `late`. See agents/priorities/marked_run.py. A mark that a program
 * of an inner cgroup has set stays: the nearest `baton mark` counts. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "flowmark.h"

#define MILLISECOND 1000000

struct marking {
	__u64 deadline_ns; /* of the monotonic clock; 0: none */
	__u32 mark;
	__u32 late;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct marking);
} mark SEC(".maps");

static __always_inline __u32 mark_now(struct marking *given)
{
	__u64 now = bpf_ktime_get_ns(), left_ms;

	if (!given->deadline_ns)
		return given->mark;
	if (now >= given->deadline_ns)
		return given->late;
	left_ms = (given->deadline_ns - now + MILLISECOND - 1) / MILLISECOND;
	return given->mark | (left_ms < MARK_MAX_DEADLINE_MS ? left_ms : MARK_MAX_DEADLINE_MS) << MARK_SIZE_BITS;
}

SEC("cgroup/sock_create")
int set_mark(struct bpf_sock *sock)
{
	__u32 zero = 0;
	struct marking *given = bpf_map_lookup_elem(&mark, &zero);

	if (given && !sock->mark)
		sock->mark = mark_now(given);
	return 1; /* allows the socket */
}

char LICENSE[] SEC("license") = "GPL";
