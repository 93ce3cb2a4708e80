"""Tests of controller/frames/."""
