"""Tests of emulation/measuring/, and of what it judges by."""
