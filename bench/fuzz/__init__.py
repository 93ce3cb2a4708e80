"""Fuzzing of control frames and REST requests."""
