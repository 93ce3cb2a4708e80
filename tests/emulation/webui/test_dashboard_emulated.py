"""The dashboard of a running Baton with Open vSwitch, agents and traffic, operated in a real browser."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from bench.dashboard.page import WebServer, browser
from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, Star, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow
from tests import needs
from tests.emulation.webui.dashboard import PASSWORD, USER, wait_for
from webui.access.accounts import Accounts

pytestmark = [pytest.mark.usefixtures("in_a_box"), needs.CHROMIUM]
TRAFFIC_S = 10.0
RATE_BPS = 20_000_000
"""The rate of every link: slow enough to leave a busy machine time for a browser."""
FLOWS = [Flow("udp", host, RECEIVER, rate_bps=RATE_BPS // 2, size=1400) for host in SENDERS]


@pytest.fixture(scope="module")
def fabric(in_a_box: None) -> Iterator[Star]:
    with star(coordinator={"slice": "10ms"}, rate_bps=RATE_BPS) as made:
        yield made


@pytest.fixture(scope="module")
def page(fabric: Star, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    directory: Path = tmp_path_factory.mktemp("dashboard")
    server = WebServer(fabric.baton.store.url, directory)
    Accounts(server.users).set_user(USER, PASSWORD, now_s=int(time.time()))
    with server, browser() as chromium:
        made = chromium.new_page(viewport={"width": 1280, "height": 800})
        made.goto(f"{server.url}/login?next=/")
        made.fill("[name=user]", USER)
        made.fill("[name=password]", PASSWORD)
        made.click("form button")
        made.wait_for_selector("#fabric svg")
        yield made


def gate_rates(fabric: Star) -> list[int]:
    """The rates (bytes/s) of all gates of every sender, read with tc."""
    found = []
    for host in SENDERS:
        shown = fabric.emulated.run_in(host, "tc", "-j", "qdisc", "show", "dev", fabric.emulated.interface(host))
        found += [qdisc["options"]["rate"] for qdisc in json.loads(shown) if qdisc["kind"] == "tbf"]
    return found


def sent(fabric: Star, duration_s: float) -> experiment.Outcome:
    """Every sender sends half a link's rate to one receiver."""
    return experiment.run(
        fabric.emulated, FLOWS, duration_s=duration_s, warmup_s=1, bottlenecks=[BOTTLENECK], host_queues=False
    )


def regulated(page: Page) -> int:
    found: int = page.evaluate("window.baton.feed.last.state.flows.filter(flow => flow.regulated).length")
    return found


def test_the_pictures_show_traffic_and_the_override_opens_every_gate(fabric: Star, page: Page) -> None:
    for host in (*SENDERS, RECEIVER):
        expect(page.locator(f'#fabric .node.host[data-id="{host}"]')).to_have_class("node host")
    expect(page.locator("#fabric .contended")).to_have_count(0)
    with ThreadPoolExecutor() as senders:  # the browser has this thread's event loop
        traffic = senders.submit(sent, fabric, TRAFFIC_S)
        page.wait_for_selector("#fabric .contended", timeout=15_000, state="attached")
        assert page.evaluate("window.baton.feed.last.state.links['s1>h6'].contended")
        wait_for(lambda: page.evaluate("window.baton.timeline.rows.length") == len(SENDERS), "every sender in the timeline")
        names = page.evaluate("window.baton.timeline.rows.map(row => row.name)")
        assert names == list(SENDERS)
        assert regulated(page) >= len(SENDERS)
        shut = gate_rates(fabric)
        try:
            page.keyboard.press("9")
            page.click("#override")
            page.click("#confirm-yes")
            expect(page.locator("#card-override .done")).to_contain_text("in force", timeout=8_000)
            wait_for(lambda: min(gate_rates(fabric)) > min(shut), "every gate to open")
            assert min(gate_rates(fabric)) * 8 >= RATE_BPS
            expect(page.locator("#banner")).to_contain_text("Override: free")
            traffic.result()
            assert senders.submit(sent, fabric, 2.0).result().drops > 0, "uncoordinated, the link drops"
            page.click("#override")
            expect(page.locator("#banner")).to_be_hidden(timeout=8_000)
            wait_for(lambda: fabric.baton.status()["override"] == "coordinate", "the end of the override")
        finally:
            fabric.baton.store.set_override("coordinate")


def test_a_coordinator_that_hangs_is_shown_within_two_seconds(fabric: Star, page: Page) -> None:
    page.keyboard.press("1")
    expect(page.locator("#banner")).to_be_hidden()
    took_s = []
    for _ in range(3):  # the machine may be busy at times
        pid = fabric.baton.status()["pid"]
        began = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        try:
            page.wait_for_selector("#banner:not([hidden])", timeout=8_000)
            took_s.append(time.monotonic() - began)
            expect(page.locator("#banner")).to_contain_text("No leader")
        finally:
            os.kill(pid, signal.SIGCONT)
        expect(page.locator("#banner")).to_be_hidden(timeout=15_000)
        if took_s[-1] < 2.0:
            break
    print(f"a coordinator that hangs is shown after {[round(s, 2) for s in took_s]} s")
    assert min(took_s) < 2.0
