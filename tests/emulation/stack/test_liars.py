"""Lying hosts in a fabric of honest ones: the coordinator detects them by the switches' counters, shows and restrains them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulation.stack.stack import Stack
from emulation.stack.star import BOTTLENECK, RECEIVER, SENDERS, Star, star
from emulation.traffic import experiment
from emulation.traffic.experiment import Flow

LIAR, HONEST = SENDERS[0], SENDERS[1:]
FLOWS = [Flow("udp", host, RECEIVER) for host in HONEST]


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with star(agents=False, coordinator={"slice": "10ms"}) as made:
        made.baton.start_agents(*HONEST, RECEIVER)
        yield made


@contextmanager
def liar(made: Star, lie: str) -> Iterator[None]:
    """Runs a lying agent on the first host inside the block; afterwards that host has none."""
    emulated, baton = made
    log = (baton.directory / "run" / f"agent-{LIAR}.log").open("ab")
    options = ["--interface", emulated.interface(LIAR), "--rate", "100mbit", "--key", str(baton.host_file(LIAR))]
    for address in emulated.fabric.addresses(LIAR):
        options += ["--address", str(address)]
    command = [sys.executable, str(Path(__file__).with_name("liar.py")), lie, "agent", *options]
    command += ["--run-dir", str(baton.directory / "run")]
    process = emulated.popen(LIAR, command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    log.close()
    try:
        baton.wait(lambda: member(baton, LIAR) is not None, "the liar to become a member")
        yield
    finally:
        process.terminate()
        process.wait()
        baton.wait(lambda: member(baton, LIAR) is None, "the liar to be forgotten")


def member(baton: Stack, name: str) -> dict | None:
    return next((found for found in baton.store.members().values() if found["name"] == name), None)


def suspects(baton: Stack) -> dict[str, list[str]]:
    return {found["name"]: found["suspect"] for found in baton.store.members().values() if found["suspect"]}


def test_honest_hosts_are_not_suspected_and_what_crosses_is_permitted(fabric: Star) -> None:
    emulated, baton = fabric
    outcome = experiment.run(emulated, FLOWS, duration_s=6, warmup_s=1, bottlenecks=[BOTTLENECK], host_queues=False)
    bypass = next(link for link in baton.status()["bypass"] if (link["source"], link["target"]) == BOTTLENECK)
    print(outcome.goodput_mbps, bypass)
    assert suspects(baton) == {} and not bypass["alarm"]
    assert bypass["regulated_bytes"] > 10 * bypass["uncoordinated_bytes"] > 0 or bypass["uncoordinated_bytes"] == 0


def test_a_host_that_claims_what_it_has_not_is_found_and_takes_little(fabric: Star) -> None:
    emulated, baton = fabric
    with liar(fabric, "phantom"):
        found: list[dict[str, list[str]]] = []
        outcome = experiment.run(
            emulated,
            FLOWS,
            duration_s=9,
            warmup_s=1,
            bottlenecks=[BOTTLENECK],
            host_queues=False,
            bucket_ns=1_000_000_000,
            events=[(8.5, lambda: found.append(suspects(baton)))],
        )
        events = [event["text"] for event in baton.store.events(200) if event["kind"] == "suspect"]
    buckets = [sum(flow.buckets[at] for flow in outcome.flows) * 8e-6 for at in range(9)]
    print(found, [round(mbps, 1) for mbps in buckets], events[-3:])
    assert set(found[0]) == {LIAR} and "does not use its slots" in found[0][LIAR][0]
    assert any(text.startswith(f"{LIAR}: does not use its slots") for text in events)
    # Before it is detected the liar has a fifth of the link; then at most a fifth of that.
    assert sum(buckets[6:8]) / 2 > 80 and sum(buckets[6:8]) / 2 > sum(buckets[:2]) / 2


def test_a_host_that_sends_outside_its_slots_is_found_and_the_bypass_is_alarmed(fabric: Star) -> None:
    emulated, baton = fabric
    with liar(fabric, "outside"):
        found: list[tuple[dict[str, list[str]], list[dict]]] = []
        flows = [*FLOWS[:2], Flow("udp", LIAR, RECEIVER, rate_bps=50_000_000)]
        experiment.run(
            emulated,
            flows,
            duration_s=7,
            warmup_s=1,
            bottlenecks=[BOTTLENECK],
            host_queues=False,
            events=[(6.5, lambda: found.append((suspects(baton), baton.status()["bypass"])))],
        )
        events = [event["text"] for event in baton.store.events(200) if event["kind"] == "suspect"]
    print(found, events[-4:])
    who, bypass = found[0]
    assert set(who) == {LIAR} and "sends outside its slots" in who[LIAR][0]
    link = next(link for link in bypass if (link["source"], link["target"]) == BOTTLENECK)
    assert link["alarm"] and link["uncoordinated_bytes"] > 5_000_000
    assert any("crosses it without permission" in text for text in events)
