"""Tests of emulation/stack/."""
