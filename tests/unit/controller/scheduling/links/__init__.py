"""Tests of controller/scheduling/links/."""
