"""Benchmarks of computation alone, without a fabric: policies, the wire protocol, thresholds, aggregation."""
