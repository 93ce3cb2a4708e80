"""Tests of controller/openflow/."""
