"""Peers of earlier versions of the wire, recorded: each in a folder of its own."""
