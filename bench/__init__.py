"""Benchmarks: each measures one thing on the real components and returns a JSON document."""
