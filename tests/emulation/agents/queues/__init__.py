"""Tests of agents/queues/."""
