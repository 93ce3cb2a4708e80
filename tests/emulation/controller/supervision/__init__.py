"""Tests of controller/supervision/."""
