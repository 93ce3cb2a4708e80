"""The compiler and loader of eBPF programs, and of the agent's C library."""
