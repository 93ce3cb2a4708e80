"""Tests of agents/host_control/."""
