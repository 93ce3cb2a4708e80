"""Queues, ECN and shared buffers of switch ports: the model, ports on this machine, and texts for hardware switches."""
