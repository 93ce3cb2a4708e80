/* At a cgroup: every socket made in it is born with the flow mark that `baton mark` was given.
 * A mark that a program of a cgroup further in has set stays: the nearest `baton mark` counts. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} mark SEC(".maps");

SEC("cgroup/sock_create")
int set_mark(struct bpf_sock *sock)
{
	__u32 zero = 0, *value = bpf_map_lookup_elem(&mark, &zero);

	if (value && !sock->mark)
		sock->mark = *value;
	return 1; /* the socket may be made */
}

char LICENSE[] SEC("license") = "GPL";
