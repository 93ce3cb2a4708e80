"""Compiles and loads eBPF programs, and compiles the agent's C library."""
