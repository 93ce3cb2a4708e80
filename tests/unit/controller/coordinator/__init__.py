"""Tests of controller/coordinator/."""
