"""Tests of agents/kernel/."""
