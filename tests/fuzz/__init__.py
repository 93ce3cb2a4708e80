"""Fuzzed decoding and authentication."""
