"""Tests of controller/policies/."""
