"""Tests of controller/coflows/."""
