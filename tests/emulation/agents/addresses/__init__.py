"""Tests of agents/addresses/ on real interfaces."""
