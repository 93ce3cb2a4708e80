"""Benchmarks of coordination on an emulated fabric: latency, work conservation, loss, failures, fail-over."""
