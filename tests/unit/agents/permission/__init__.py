"""Tests of agents/permission/."""
