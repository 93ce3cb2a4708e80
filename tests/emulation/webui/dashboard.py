"""Fixtures for the dashboard's tests: the real server over a real Redis, a generated feed, pages whose errors are collected."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect

from bench.dashboard.feed import PERIOD_NS, Feed
from bench.dashboard.page import WebServer
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from webui.access.accounts import Accounts

USER, PASSWORD = "ada", "correct horse battery"
PATIENCE_MS = 20_000
"""Three boxes of tests, each with a browser, may run at once on two processors that have other work to do."""
expect.set_options(timeout=PATIENCE_MS)
VIEWS = ("overview", "fabric", "schedule", "flows", "sizes", "pfc", "members", "events", "controls")


class Feeder:
    """A feed at ten steps a second, in a thread that tests can silence."""

    def __init__(self, url: str, *, hosts: int = 18, flows: int = 40) -> None:
        self.feed = Feed(Store(url), hosts=hosts, flows=flows)
        self.feed.begin()
        self.silent = threading.Event()
        self.last_s = 0.0
        """When the last step was written, monotonic seconds."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(PERIOD_NS / 1e9):
            if not self.silent.is_set():
                self.feed.step()
                self.last_s = time.monotonic()

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self.feed.store.close()


@dataclass
class Dashboard:
    """A server with its feed, and pages of it."""

    server: WebServer
    feeder: Feeder
    chromium: Browser
    complaints: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def page(
        self,
        view: str = "overview",
        *,
        width: int = 1280,
        height: int = 800,
        scheme: Literal["dark", "light"] = "dark",
        user: bool = False,
    ) -> Iterator[Page]:
        """A page in a context of its own; errors and warnings on its console go to `complaints`."""
        context = self.chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_default_timeout(PATIENCE_MS)
        try:
            if user:
                page.goto(f"{self.server.url}/login?next=/")
                page.fill("[name=user]", USER)
                page.fill("[name=password]", PASSWORD)
                page.click("form button")
                page.wait_for_selector("#account form")
            page.goto(f"{self.server.url}/#{view}")
            page.wait_for_selector("#fabric svg, .gtile" if view in ("overview", "fabric") else ".state")
            yield page
        finally:
            context.close()
            self.complaints += said


@contextlib.contextmanager
def dashboard(directory: Path, chromium: Browser, **feed: int) -> Iterator[Dashboard]:
    """A running dashboard. Raises RedisMissing, RuntimeError: it can't be started."""
    with PrivateRedis(directory) as redis:
        server = WebServer(redis.url, directory)
        Accounts(server.users).set_user(USER, PASSWORD, now_s=int(time.time()))
        feeder = Feeder(redis.url, **feed)
        try:
            with server:
                yield Dashboard(server, feeder, chromium)
        finally:
            feeder.close()


def is_light(page: Page) -> bool:
    """Whether the page's background is lighter than its text."""
    lightness = "name => getComputedStyle(document.body)[name].match(/[0-9.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    found: list[float] = [page.evaluate(lightness, name) for name in ("backgroundColor", "color")]
    return found[0] > found[1]


def width_of(picture: Path) -> int:
    """Of a PNG, in pixels (RFC 2083, 11.2.1)."""
    return int.from_bytes(picture.read_bytes()[16:20])


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 8.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
