"""PFC end to end: `baton pfc` on the operator's machine, a coordinator, an agent, and a switch that pauses it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import expect

from bench.dashboard.page import WebServer, browser
from emulation.fabric.fabric import EmulatedFabric
from emulation.stack import stack
from emulation.stack.stack import Stack
from protocol.pfc import PfcFrame
from tests import needs
from topology import shapes
from topology.fabric import DirectedLink

PARTNER, STRANGER = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")


@pytest.fixture(scope="module")
def baton() -> Iterator[Stack]:
    """Two hosts at a switch; only h1 has PFC."""
    fabric = shapes.build("star", hosts=2, rate_bps=100_000_000)
    with EmulatedFabric(fabric, controller=stack.OPENFLOW) as emulated, Stack(emulated) as made:
        made.start_agents("h1", options=("--pfc", "software"))
        made.start_agents("h2")
        yield made


def command(baton: Stack, *words: str) -> subprocess.CompletedProcess[str]:
    where = ("--run-dir", str(baton.directory / "run"))
    return subprocess.run(
        (sys.executable, "-m", "cli.main", "pfc", *words, *where), capture_output=True, text=True, check=False, timeout=30
    )


def host(baton: Stack, name: str = "h1") -> dict[str, Any]:
    """What `baton pfc status --json` shows of a host."""
    done = command(baton, "status", "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["hosts"].get(name, {}))


def until(baton: Stack, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 10
    while not (found := host(baton)) or not condition(found):
        assert time.monotonic() < deadline, found
    return found


def from_the_switch(baton: Stack, frame: bytes) -> None:
    """Sends a frame out of the switch's port to h1."""
    port = baton.emulated.ports[DirectedLink("s1", "h1")].name
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind((port, 0))
        raw.send(frame)


def test_a_host_pauses_its_link_partner_and_counts_it(baton: Stack) -> None:
    until(baton, lambda found: found["mode"] == "software")
    done = command(baton, "pause", "--host", "h1", "--classes", "3,5", "--for", "2ms")
    assert (done.returncode, done.stdout) == (0, "h1 pauses classes 3, 5 of its link partner for 2 ms\n"), done.stderr
    found = until(baton, lambda found: found["classes"][5]["sent"] >= 2)
    assert [row["sent"] for row in found["classes"]] == [0, 0, 0, 2, 0, 2, 0, 0]
    done = command(baton, "resume", "--host", "h1", "--classes", "3")
    assert done.returncode == 0, done.stderr
    assert until(baton, lambda found: found["classes"][3]["sent"] == 3)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--host", "h9", "--for", "2ms"), "no member is called h9"),
        (("--host", "h2", "--for", "2ms"), "the agent of h2 has no PFC"),
        (("--host", "h1", "--for", "1s"), "raise pfc.detection"),
    ],
)
def test_what_cannot_be_done_is_an_error(baton: Stack, words: tuple[str, ...], problem: str) -> None:
    until(baton, lambda found: found["mode"] == "software")
    done = command(baton, "pause", "--classes", "3", *words)
    assert done.returncode == 1
    assert problem in done.stderr


def test_pauses_of_the_authorised_partner_alone_are_obeyed_once_the_configuration_says_who_that_is(baton: Stack) -> None:
    from_the_switch(baton, PfcFrame(STRANGER, {2: 0xFFFF}).encode())
    until(baton, lambda found: found["classes"][2]["received"] == 1)
    path = baton.directory / "baton.yaml"
    config = yaml.safe_load(path.read_text())
    config["pfc"] = {"accept_from": [PARTNER.hex(":")], "classes": {"h2": 3}}
    changed = path.with_suffix(".new")
    changed.write_text(yaml.safe_dump(config))
    changed.replace(path)
    baton.wait(lambda: baton.status().get("pfc", {}).get("accept_from") == [PARTNER.hex(":")], "the new settings")
    time.sleep(1.5)  # agents report every second
    from_the_switch(baton, PfcFrame(STRANGER, {3: 0xFFFF}).encode())
    from_the_switch(baton, PfcFrame(PARTNER, {4: 100}).encode())
    found = until(baton, lambda found: found["classes"][4]["received"] == 1)
    assert (found["classes"][3]["received"], found["classes"][3]["refused"], found["strangers"]) == (0, 1, 1)
    shown = subprocess.run(
        (sys.executable, "-m", "cli.main", "status", "--run-dir", str(baton.directory / "run")),
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert "pauses" in shown.stdout


@needs.CHROMIUM
def test_the_dashboard_shows_pauses_and_a_storm_of_real_frames(baton: Stack, tmp_path: Path) -> None:
    with WebServer(baton.store.url, tmp_path) as server, browser() as chromium:
        page = chromium.new_page()
        page.goto(f"{server.url}/#pfc")
        cells = page.locator("#pfc table.pfc tbody tr", has_text="h1").locator("td")
        expect(cells.nth(7)).to_have_text("·", timeout=15_000)
        before = host(baton)["classes"][6]["received"]
        for _ in range(5):
            from_the_switch(baton, PfcFrame(PARTNER, {6: 100}).encode())
        expect(cells.nth(6)).to_contain_text(f"↓{before + 5}")
        storming = time.monotonic() + 10
        while not (storms := host(baton)["classes"][7]["storms"]):
            assert time.monotonic() < storming, "no storm was seen"
            for _ in range(20):
                from_the_switch(baton, PfcFrame(PARTNER, {7: 0xFFFF}).encode())
                time.sleep(0.02)
        assert storms >= 1
        expect(cells.nth(7)).to_contain_text("▲")
        expect(cells.nth(7)).to_have_class("storm")
        expect(page.locator("#views a", has_text="PFC").locator(".badge")).not_to_be_empty()
