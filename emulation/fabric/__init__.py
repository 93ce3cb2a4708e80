"""Emulated fabrics: namespaces, Open vSwitch, ports and their qdiscs."""
