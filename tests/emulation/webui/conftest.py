"""The browser, and the dashboard, that the tests of one module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from bench.dashboard.page import browser
from tests.emulation.webui.dashboard import Dashboard, dashboard


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def shared(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A dashboard for the tests of one module."""
    with dashboard(tmp_path_factory.mktemp("dashboard"), chromium) as made:
        yield made
