"""Tests of emulation/."""
