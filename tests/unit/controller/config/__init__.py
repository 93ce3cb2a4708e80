"""Tests of controller/config/."""
