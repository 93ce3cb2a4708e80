"""Tests of controller/election/."""
