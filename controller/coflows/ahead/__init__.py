"""Flows with admitted deadlines that may send ahead of time."""
