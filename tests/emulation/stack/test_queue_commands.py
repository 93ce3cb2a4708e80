"""`baton queue` and the policy `weekly` end to end: command or configuration, store, coordinator, agents, gates as tc shows
them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from emulation.fabric.fabric import EmulatedFabric
from emulation.stack import stack
from emulation.stack.stack import Stack
from topology import shapes

RATE_BPS = 100_000_000
SHUT_BPS = 32_000
FLOOD = """
import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    sender.sendto(bytes(1400), (sys.argv[1], 9))
    time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def baton() -> Iterator[Stack]:
    """Three hosts at a switch; every flow of h1 counts as large."""
    fabric = shapes.build("star", hosts=3, rate_bps=RATE_BPS)
    agents = {"mice_bytes": "2KB", "mice_rate": "1kbit"}
    with EmulatedFabric(fabric, controller=stack.OPENFLOW) as emulated, Stack(emulated, agents=agents) as made:
        made.start_agents("h1", "h2", "h3")
        yield made


def command(baton: Stack, *words: str) -> subprocess.CompletedProcess[str]:
    where = ("--run-dir", str(baton.directory / "run"))
    return subprocess.run(
        (sys.executable, "-m", "cli.main", "queue", *words, *where), capture_output=True, text=True, check=False, timeout=30
    )


def node(baton: Stack, name: str) -> int:
    return next(number for number, member in baton.store.members().items() if member["name"] == name)


def gate_bps(baton: Stack, host: str, destination: str) -> int:
    """The rate of a gate, as tc shows it; -1 while there is none."""
    shown: list[dict[str, Any]] = json.loads(
        baton.emulated.run_in(host, "tc", "-j", "qdisc", "show", "dev", baton.emulated.interface(host))
    )
    handle = f"{node(baton, destination):x}:"
    return next((int(qdisc["options"]["rate"]) * 8 for qdisc in shown if qdisc["handle"] == handle), -1)


def flood(baton: Stack, host: str, *destinations: str, seconds: float) -> list[subprocess.Popen[Any]]:
    """Sends large flows, so that the agents make gates."""
    addresses = [str(baton.emulated.endpoints()[destination]) for destination in destinations]
    return [baton.emulated.popen(host, (sys.executable, "-c", FLOOD, address, str(seconds))) for address in addresses]


def test_conditions_come_and_go_by_command_and_survive_the_coordinator(baton: Stack) -> None:
    assert command(baton, "add", "--host", "h1", "--destination", "h2").returncode == 0  # free, whatever was before
    floods = flood(baton, "h1", "h2", "h3", seconds=90)
    try:
        baton.wait(lambda: gate_bps(baton, "h1", "h2") > RATE_BPS and gate_bps(baton, "h1", "h3") > RATE_BPS, "gates")
        free = gate_bps(baton, "h1", "h2")
        where = ("--host", "h1", "--destination", "h2")
        for words, expected in (
            (("remove", *where), SHUT_BPS),
            (("add", *where, "--rate", "8mbit"), 8_000_000),
            (("add", *where, "--rate", "16mbit"), 16_000_000),
        ):
            done = command(baton, *words)
            assert done.returncode == 0, done.stderr
            baton.wait(lambda bps=expected: gate_bps(baton, "h1", "h2") == bps, f"{words}")  # type: ignore[misc]  # bound at once
        assert gate_bps(baton, "h1", "h3") == free
        assert command(baton, "list").stdout == "h1 -> h2:\n  1: at 8 Mbit/s\n  2: at 16 Mbit/s\n"
        assert command(baton, "remove", *where, "--number", "2").returncode == 0
        baton.wait(lambda: gate_bps(baton, "h1", "h2") == 8_000_000, "one condition less")
        assert command(baton, "add", *where).stdout == "h1: queue h2 is free\n"
        baton.wait(lambda: gate_bps(baton, "h1", "h2") == free, "freedom")
        assert command(baton, "list").stdout == "every queue is free\n"
    finally:
        for process in floods:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "--host", "h9", "--destination", "h2"), "no member is called h9"),
        (("add", "--host", "h1", "--destination", "h9"), "no member is called h9"),
        (("add", "--host", "h1", "--destination", "h1"), "nothing to itself"),
        (("add", "--host", "h1", "--class", "8"), "classes are from 0 to 7"),
        (("add", "--host", "h1"), "either --destination or --class"),
        (("add", "--host", "h1", "--destination", "h2", "--rate", "200mbit"), "above the link's"),
        (("add", "--host", "h1", "--destination", "h2", "--from", "2s", "--until", "1s"), "not after --from"),
        (("add", "--host", "h1", "--destination", "h2", "--until", "soon"), "--until"),
        (("remove", "--host", "h1", "--destination", "h2", "--number", "7"), "has no condition 7"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_changes_nothing(baton: Stack, words: tuple[str, ...], problem: str) -> None:
    before = baton.store.commands.queues()
    done = command(baton, *words)
    assert done.returncode == 2, done.stdout
    assert problem in done.stderr
    assert baton.store.commands.queues() == before


def test_members_clocks_are_known_to_the_store_and_shown(baton: Stack) -> None:
    def known() -> bool:
        members = baton.store.members().values()
        return all(member.get("schedule_uncertainty_us") is not None for member in members)

    baton.wait(known, "reports of clocks")
    for member in baton.store.members().values():
        assert 0 <= member["schedule_uncertainty_us"] < 100_000
        assert member["schedule_offset_us"] is not None


def test_appointed_days_open_one_gate_at_a_time_and_the_end_of_the_policy_frees_all(baton: Stack) -> None:
    path = baton.directory / "baton.yaml"
    config = yaml.safe_load(path.read_text())
    config["coordinator"]["policy"] = "weekly"
    config["weekly"] = {"day": "40ms", "days": 2, "flows": {"h1 -> h2": [0], "h1 -> h3": [1]}}
    changed = path.with_suffix(".new")
    changed.write_text(yaml.safe_dump(config))
    changed.replace(path)
    baton.wait(lambda: baton.status().get("policy") == "weekly", "the policy")
    floods = flood(baton, "h1", "h2", "h3", seconds=90)
    try:
        baton.wait(lambda: len(baton.store.members()) == 3 and gate_bps(baton, "h1", "h3") > 0, "members and gates")
        seen = set()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            seen.add(tuple(gate_bps(baton, "h1", name) > SHUT_BPS for name in ("h2", "h3")))
        # Both may look closed or open while a day turns, or before the first week.
        assert {(True, False), (False, True)} <= seen
        baton.set_policy("free")
        baton.wait(lambda: min(gate_bps(baton, "h1", name) for name in ("h2", "h3")) > RATE_BPS, "freedom")
    finally:
        for process in floods:
            process.kill()
            process.wait()
