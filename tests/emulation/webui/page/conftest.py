"""A dashboard for the tests of one module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.emulation.webui.dashboard import Dashboard, dashboard


@pytest.fixture(scope="module")
def shared(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with dashboard(tmp_path_factory.mktemp("dashboard"), chromium) as made:
        yield made


@pytest.fixture
def small(shared: Dashboard) -> Iterator[Dashboard]:
    """A fabric of 18 hosts; the test fails if a page logged an error."""
    shared.complaints.clear()
    yield shared
    assert shared.complaints == []
