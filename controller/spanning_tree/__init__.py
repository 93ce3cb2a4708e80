"""Reads the active spanning tree of switches that Baton does not control, by OVSDB, Linux bridges or SNMP, and publishes it."""
