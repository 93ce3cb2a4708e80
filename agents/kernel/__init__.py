"""What the agent uses of the kernel: netlink messages, qdiscs, offloads, capabilities, and the probe behind `baton doctor`."""
