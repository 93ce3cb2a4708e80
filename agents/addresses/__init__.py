"""The addresses that live at a host: read from the kernel, followed as they change, and announced to the leader."""
