"""Tests of emulation/fabric/."""
