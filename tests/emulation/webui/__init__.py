"""Tests of webui/."""
