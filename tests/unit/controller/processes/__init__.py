"""Tests of controller/processes/."""
