"""Spanning trees that Baton does not control, read from Open vSwitch, Linux bridges or SNMP."""
