"""Tests of controller/members/."""
