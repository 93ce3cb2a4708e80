"""The OpenFlow application's parts: discovery, forwarding, the switches and their roles, counters, and the framework below."""
