"""The eBPF program of a switch port's queues."""
