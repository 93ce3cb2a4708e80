"""Addresses reach the directory by themselves, nobody takes another one's, and what nobody classifies is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulation.stack.star import Star, star

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.usefixtures("in_a_box")
SENDING = """
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for _ in range(8):
        out.sendto(bytes(1400), (sys.argv[1], 9))
    time.sleep(0.003)
"""
"""About 30 Mbit/s to an address, for so many seconds."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with star() as made:
        yield made


def of_member(fabric: Star, name: str) -> dict[str, Any]:
    return next((member for member in fabric.baton.store.members().values() if member["name"] == name), {})


def warnings(fabric: Star, name: str = "") -> str:
    document = of_member(fabric, name) if name else fabric.baton.store.status() or {}
    return " ".join(document.get("warnings", ()))


def ip(fabric: Star, host: str, *words: str) -> None:
    fabric.emulated.run_in(host, "ip", *words)


def send(fabric: Star, host: str, address: str, seconds: float) -> subprocess.Popen[bytes]:
    return fabric.emulated.popen(host, [sys.executable, "-c", SENDING, address, str(seconds)])


def test_an_address_that_is_added_later_is_in_the_directory_and_one_that_is_removed_is_not(fabric: Star) -> None:
    interface = fabric.emulated.interface("h2")
    assert not warnings(fabric, "h2")
    ip(fabric, "h2", "addr", "add", "10.0.0.77/24", "dev", interface)
    fabric.baton.wait(lambda: "10.0.0.77" in of_member(fabric, "h2")["addresses"], "the coordinator knows the address")
    ip(fabric, "h2", "addr", "del", "10.0.0.77/24", "dev", interface)
    fabric.baton.wait(lambda: "10.0.0.77" not in of_member(fabric, "h2")["addresses"], "the address is gone")


def test_an_address_that_a_live_member_holds_is_refused_and_shown(fabric: Star) -> None:
    taken = of_member(fabric, "h2")["addresses"][0]
    interface = fabric.emulated.interface("h3")
    ip(fabric, "h3", "addr", "add", f"{taken}/32", "dev", interface)
    fabric.baton.wait(lambda: taken in warnings(fabric, "h3"), "the refusal is shown")
    assert taken in of_member(fabric, "h2")["addresses"] and taken not in of_member(fabric, "h3")["addresses"]
    command = [sys.executable, "-m", "cli.main", "doctor", "--hosts", "--json"]
    command += ["--run-dir", str(fabric.baton.directory / "run")]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout)["findings"]
    assert any(one["host"] == "h3" and taken in one["found"] and one["remedy"] for one in found)
    ip(fabric, "h3", "addr", "del", f"{taken}/32", "dev", interface)
    fabric.baton.wait(lambda: not warnings(fabric, "h3"), "the warning goes away")


def test_traffic_to_an_address_that_no_agent_knows_is_shown(fabric: Star) -> None:
    ip(fabric, "h4", "addr", "add", "10.0.0.88/32", "dev", "lo")
    sender = send(fabric, "h1", "10.0.0.88", 25)
    try:
        fabric.baton.wait(lambda: "--address" in warnings(fabric, "h4"), "unclassified traffic is shown")
        assert not warnings(fabric, "h5")
    finally:
        sender.terminate()
        sender.wait(5)
        ip(fabric, "h4", "addr", "del", "10.0.0.88/32", "dev", "lo")
    fabric.baton.wait(lambda: not warnings(fabric, "h4"), "the warning goes away")


def test_a_host_without_an_agent_that_sends_is_shown(fabric: Star) -> None:
    agent = fabric.baton.agents.pop("h5")
    agent.terminate()
    agent.wait(10)
    sender = send(fabric, "h5", str(fabric.emulated.fabric.addresses("h1")[0]), 15)
    try:
        fabric.baton.wait(lambda: "h5 has no agent" in warnings(fabric), "a host without an agent is shown")
    finally:
        sender.terminate()
        sender.wait(5)
