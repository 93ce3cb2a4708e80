"""Tests of controller/switch_queues/."""
