"""Tests of agents/guests/."""
