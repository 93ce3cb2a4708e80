"""Hosts whose interfaces have priorities: what a host sends later, with a higher priority, arrives before what waits there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.priorities.tagger import Tagger, TaggerSettings
from emulation.fabric.fabric import EmulatedFabric
from emulation.netns import network_of
from topology import shapes

pytestmark = pytest.mark.usefixtures("in_a_box")

RATE_BPS = 10_000_000
LOW, HIGH = 200, 10
# The first socket's buffer, some 90 datagrams, waits in the host's queues when the second one sends.
SEND = f"""
import socket, sys
from protocol.mark_socket import mark_socket
low, high = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
if sys.argv[1] == "mark":
    mark_socket(high, size_bytes=100_000, deadline_ms=1000)
else:
    high.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 7 << 2)
for _ in range({LOW}):
    low.sendto(b"low".ljust(1000), ("10.0.0.2", 9))
for _ in range({HIGH}):
    high.sendto(b"high".ljust(1000), ("10.0.0.2", 9))
"""
RECEIVE = f"""
import json, socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
receiver.bind(("", 9))
receiver.settimeout(10)
print("ready", flush=True)
print(json.dumps([receiver.recv(2000).strip(b" ").decode() for _ in range({LOW + HIGH})]))
"""
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def pair() -> Iterator[EmulatedFabric]:
    fabric = shapes.star(hosts=2, rate_bps=RATE_BPS)
    with EmulatedFabric(fabric, buffer_packets=LOW + HIGH, static_arp=True, host_priorities=True) as emulated:
        yield emulated


def order(emulated: EmulatedFabric, by: str) -> list[str]:
    """What arrived, in order."""
    receiver = emulated.popen("h2", [sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
    assert emulated.popen("h1", [sys.executable, "-c", SEND, by], cwd=REPOSITORY).wait(30) == 0
    return list(json.loads(receiver.communicate(timeout=30)[0]))


def behind(arrived: list[str]) -> int:
    """How many low ones arrived after all high ones."""
    assert (arrived.count("low"), arrived.count("high")) == (LOW, HIGH)
    return arrived[::-1].index("high")


@pytest.mark.parametrize("by", ["dscp", "mark"])
def test_a_packet_of_high_priority_passes_those_that_wait_in_its_host(pair: EmulatedFabric, by: str) -> None:
    with ExitStack() as stack:
        if by == "mark":
            with network_of(pair.node("h1").pid):
                tagger = Tagger(pair.interface("h1"), TaggerSettings())
            stack.callback(tagger.close)
        assert behind(order(pair, by)) > 40


def test_what_another_program_has_removed_at_a_host_is_put_back(pair: EmulatedFabric) -> None:
    assert pair.verify() == []
    pair.run_in("h1", "tc", "qdisc", "del", "dev", pair.interface("h1"), "root")
    assert pair.verify() == [f"{pair.interface('h1')}: the queues are gone"]
    assert pair.verify() == []
    assert behind(order(pair, "dscp")) > 40
