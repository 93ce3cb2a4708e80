"""Which gate is open: slots and leases from the coordinator, and the rules that several reasons to close a gate share.
Pure but for samples of time.
"""
