"""Tests of controller/spanning_tree/."""
