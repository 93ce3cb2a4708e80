"""Tests of the steps policy."""
