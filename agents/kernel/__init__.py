"""What the kernel is asked for and offers: netlink messages, qdiscs, offloads, capabilities, and the probe behind `baton
doctor`.
"""
