"""Tests of simulation/: the pure parts, and short runs where ns-3 is installed."""
