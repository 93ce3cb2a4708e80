"""Queues, ECN and shared buffers of switch ports: the model, and the ports that it is applied to."""
