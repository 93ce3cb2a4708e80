"""Marks for the flows of guests (VMs, containers) behind the host's bridge: who may ask for them, and what holds them."""
