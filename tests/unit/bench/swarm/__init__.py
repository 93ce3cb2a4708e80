"""Tests of bench/swarm/."""
