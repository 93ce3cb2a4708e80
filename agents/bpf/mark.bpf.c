/* At a cgroup: every socket made in it is born with the flow mark that `baton mark` was given, or `baton coflow run`: before
 * a coflow's deadline, the mark gets the time that is left; after it, `late` is used. See agents/priorities/marked_run.py.
 * A mark that a program of a cgroup further in has set stays: the nearest `baton mark` counts. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define SIZE_BITS 20
#define DEADLINE_MAX_MS 4094
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
	return given->mark | (left_ms < DEADLINE_MAX_MS ? left_ms : DEADLINE_MAX_MS) << SIZE_BITS;
}

SEC("cgroup/sock_create")
int set_mark(struct bpf_sock *sock)
{
	__u32 zero = 0;
	struct marking *given = bpf_map_lookup_elem(&mark, &zero);

	if (given && !sock->mark)
		sock->mark = mark_now(given);
	return 1; /* the socket may be made */
}

char LICENSE[] SEC("license") = "GPL";
