"""Tests of agents/membership/."""
