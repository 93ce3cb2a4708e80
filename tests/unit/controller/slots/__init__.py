"""Tests of controller/scheduling/."""
