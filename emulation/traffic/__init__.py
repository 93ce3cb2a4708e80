"""Traffic on an emulated fabric: workloads, flow schedules, coflows, and a single experiment's run."""
