"""Redis: what lies where, and reading and writing it."""
