"""Tests of webui/access/."""
