"""Fixtures that the tests of spanning trees share."""

from __future__ import annotations

from tests.emulation.controller.spanning_tree.rstp_ring import ovs, prefix  # noqa: F401 -- fixtures
