"""The compiler of eBPF programs, and the programs over several kernels."""
