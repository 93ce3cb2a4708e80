"""Tests of agents/reflex/."""
