"""The agent's event loop: the parts that join it, how it waits, its clock, and how slow work gives way to urgent work."""
