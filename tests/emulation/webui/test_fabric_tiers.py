"""The fabric of three tiers in a real browser: each switch is drawn in its tier, also the one with the controller's port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page

from bench.dashboard.page import WebServer, browser
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.webui.web_feed import Feed
from topology import shapes
from topology.fabric import Fabric, FabricBuilder

pytestmark = [needs.CHROMIUM, needs.REDIS]
GAP_PX = 20
TIERS = (("c1", "c2"), ("a1", "a2"), ("t1", "t2", "t3"))


def fabric(hosts_per_rack: int) -> Fabric:
    """The racks' hosts, and the controller's port at c1."""
    tiers = shapes.build("three_tier", hosts_per_rack=hosts_per_rack, aggregation_rate_bps="1.5G", core_rate_bps="2G")
    builder = FabricBuilder.of(tiers).add_host("controller", mac="02:00:00:ff:ff:01")
    return builder.add_link("controller", "c1", 10**10).build()


@pytest.fixture(params=[2, 20], ids=["2-hosts-a-rack", "20-hosts-a-rack"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with PrivateRedis(tmp_path) as redis:
        feed = Feed(Store(redis.url), fabric(request.param), 12)
        ended = threading.Event()

        def publish() -> None:
            while not ended.wait(0.1):
                feed.advance()

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            with WebServer(redis.url, tmp_path) as server:
                yield server.url
        finally:
            ended.set()
            thread.join()
            feed.store.close()


def heights(page: Page) -> dict[str, float]:
    """By node, how far below the page's top it is drawn."""
    found: dict[str, float] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#fabric .node')]"
        ".map((node) => [node.dataset.id, node.getBoundingClientRect().y]))"
    )
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_switch_is_drawn_in_its_tier(url: str, scheme: Literal["light", "dark"], tmp_path: Path) -> None:
    with browser() as chromium:
        context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.goto(f"{url}/#fabric")
        page.wait_for_selector("#fabric .node")
        page.wait_for_timeout(700)
        found = heights(page)
        page.screenshot(path=tmp_path / f"tiers-{scheme}.png")
    rows = [[found[switch] for switch in tier] for tier in TIERS]
    for above, below in zip(rows, [*rows[1:], [found["h1"], found["h2"]]], strict=True):
        assert max(above) + GAP_PX < min(below)
    assert max(rows[0]) < found["controller"] < min(rows[2])
