"""Tests of webui/http/metrics.py."""
