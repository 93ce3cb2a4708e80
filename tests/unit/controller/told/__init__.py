"""Tests of controller/told/."""
