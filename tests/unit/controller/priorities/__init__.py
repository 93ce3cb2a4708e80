"""Tests of controller/priorities/."""
