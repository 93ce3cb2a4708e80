"""The eBPF programs of emulated links: exact departure times, and the record of when packets left."""
