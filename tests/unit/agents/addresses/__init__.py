"""Tests of agents/addresses/."""
