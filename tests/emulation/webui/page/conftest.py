"""The dashboard of a module, and no errors of its pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulation.webui.dashboard import Dashboard


@pytest.fixture
def small(shared: Dashboard) -> Iterator[Dashboard]:
    """A fabric of 18 hosts; the test fails if a page logged an error."""
    shared.complaints.clear()
    yield shared
    assert shared.complaints == []
