"""Wires with an agent's gates of one kind, or of either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulation.agents.queues.gated_wire import Wire, gated_wire


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """Behind credit gates."""
    yield from gated_wire("tbf", tmp_path)


@pytest.fixture(params=["tbf", "plug"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Wire]:
    """Behind gates of either kind, for what both promise."""
    yield from gated_wire(request.param, tmp_path)


@pytest.fixture
def plugged(tmp_path: Path) -> Iterator[Wire]:
    """Behind time gates."""
    yield from gated_wire("plug", tmp_path)
