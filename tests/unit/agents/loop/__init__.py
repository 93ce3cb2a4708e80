"""Tests of agents/loop/."""
