"""Processes, services and the JSON lines that they exchange."""
