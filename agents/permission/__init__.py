"""Decides which gate is open: by slots and leases of the coordinator, and by the rules that block a queue for other reasons.
Pure, except that the gatekeeper reads a clock.
"""
