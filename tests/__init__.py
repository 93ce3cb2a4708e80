"""Baton's tests: unit (no root, no clock, no network), emulation (real kernel, Open vSwitch, Redis, TCP), fuzz,
stock_kernel.
"""
