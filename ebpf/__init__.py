"""Compiles and loads eBPF programs, compiles the agent's C library, and filters system calls."""
