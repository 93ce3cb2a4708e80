"""Tests of agents/priorities/."""
