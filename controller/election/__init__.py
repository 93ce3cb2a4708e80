"""Elects the controller that leads: the rules, the lease in the store, and the process that renews it."""
