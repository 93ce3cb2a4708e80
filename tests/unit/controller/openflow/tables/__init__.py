"""Tests of controller/openflow/intake/."""
