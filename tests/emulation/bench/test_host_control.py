"""The benchmark of fine-grained host control on a real wire: what it captures, and generous bounds on its figures."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from bench.host_control import cells, controls, ends, experiment, weeks
from bench.host_control.capture import flows_at
from bench.host_control.days import Plan
from bench.host_control.ends import Ends, EndsError
from bench.host_control.load import Commander, Processors, load
from bench.host_control.partner import Partner
from cli.bench.host_control import host_control, table
from emulation.netns import network_of, new_namespace
from protocol.bodies.host_control import Transport

PROCESSORS = Processors.found()
CELL = cells.Cell(size=500, flows=4, pauses=48)


@pytest.fixture
def wire() -> Iterator[Ends]:
    with ends.veth_pair() as made, PROCESSORS.apart():
        yield made


def test_the_kernels_timestamps_are_of_the_arrival_and_in_order(wire: Ends) -> None:
    before = time.clock_gettime_ns(time.CLOCK_REALTIME)
    with load(wire, PROCESSORS, Commander(None, 1), flows=3, size=200, seconds=0.1, pps=3000) as made:
        pass
    with flows_at(wire.receiver, 2) as later:
        assert later.arrivals().at_ns.size == 0
    with load(wire, PROCESSORS, Commander(None, 1), flows=3, size=200, seconds=0.1, pps=3000) as made:
        time.sleep(0.3)
        found = made.capture.arrivals()
    after = time.clock_gettime_ns(time.CLOCK_REALTIME)
    assert found.at_ns.size == made.sent_packets > 50
    assert before < found.at_ns.min() <= found.at_ns.max() < after
    assert set(found.flow.tolist()) == {0, 1, 2}
    mine = found.sequence[found.flow == 1]
    assert mine.tolist() == list(range(mine.size))


@pytest.mark.parametrize("gate", experiment.gates())
@pytest.mark.parametrize("size", [64, 1000])
def test_a_closed_gate_lets_nothing_pass_whatever_the_packets_size(wire: Ends, gate: str, size: int) -> None:
    with controls.direct(wire, PROCESSORS, gate, 10**10, CELL.flows) as control:
        found = cells.run(wire, PROCESSORS, control, CELL._replace(size=size))
    assert found["packets_after_close"]["samples"] > 10
    assert found["packets_after_close"]["max"] <= 1  # a packet that was on the wire
    assert found["never_closed"] == 0
    assert found["on_us"]["p50"] < 5_000


@pytest.fixture
def partner(wire: Ends) -> Iterator[tuple[Ends, Partner]]:
    """A wire and the partner of an agent that knows its flows."""
    with controls.agent(wire, PROCESSORS, controls.AgentOptions(weeks.RATE_BPS), 16) as made:
        with load(wire, PROCESSORS, Commander(PROCESSORS.partner, 1), flows=16, size=64, seconds=0.3, pps=10_000):
            made.wait(lambda: False, 0.3)
        yield wire, made


@pytest.mark.parametrize("way", [controls.ByCondition, controls.ByPfc])
def test_an_agent_closes_and_opens_a_flow_as_its_partner_says(
    partner: tuple[Ends, Partner], way: type[controls.ByAgent]
) -> None:
    wire, there = partner
    found = cells.run(wire, PROCESSORS, way(wire, there, PROCESSORS.partner), CELL)
    pauses = CELL.pauses - found["stalled"]
    assert found["commands_lost"] == 0
    assert found["off_us"]["samples"] >= 0.25 * pauses > 5
    assert found["on_us"]["p50"] < 5_000
    assert found["never_opened"] <= 0.2 * CELL.pauses


def test_on_each_day_its_flow_sends_and_hardly_anyone_else(partner: tuple[Ends, Partner]) -> None:
    wire, there = partner
    plan = Plan(Transport.SCHEDULE, 16, 4_000_000, 500_000, 64)
    found = weeks.run(wire, PROCESSORS, there, plan, itertools.count(1)).record
    assert found["own_packets"] > 8 * found["residual_packets"]
    assert found["idle_days"] <= 8


def test_classes_change_hands_every_week_and_hardly_a_packet_goes_under_anothers_name(
    partner: tuple[Ends, Partner],
) -> None:
    wire, there = partner
    plan = Plan(Transport.PFC, 16, 8_000_000, 2_000_000, 48)
    found = weeks.run(wire, PROCESSORS, there, plan, itertools.count(1)).record
    assert found["remappings"] == 5
    assert found["own_packets"] > 5 * found["residual_packets"]


def offloads(name: str) -> list[str]:
    shown = subprocess.run(["ethtool", "-k", name], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in shown if line.startswith(("tx-", "tcp-seg", "generic-seg", "generic-rec"))]


def test_given_interfaces_come_back_with_the_offloads_that_they_had() -> None:
    subprocess.run(["ip", "link", "add", "hc0", "type", "veth", "peer", "name", "hc1"], check=True)
    try:
        subprocess.run(["ethtool", "-K", "hc0", "tso", "off", "gro", "on"], check=True)
        before = {name: offloads(name) for name in ("hc0", "hc1")}
        with ends.given("hc0", "hc1"):
            pass
        assert {name: offloads(name) for name in before} == before
    finally:
        subprocess.run(["ip", "link", "del", "hc0"], check=False)


def test_given_interfaces_come_back_to_the_namespace_that_they_had() -> None:
    """The namespace of the process that took them, which need not be that of process 1."""
    with new_namespace() as holder, network_of(holder):
        subprocess.run(["ip", "link", "add", "hc0", "type", "veth", "peer", "name", "hc1"], check=True)
        with ends.given("hc0", "hc1"):
            pass
        assert {"hc0", "hc1"} <= {name for _, name in socket.if_nameindex()}


def test_given_interfaces_come_back_as_they_were() -> None:
    subprocess.run(["ip", "link", "add", "hc0", "type", "veth", "peer", "name", "hc1"], check=True)
    try:
        subprocess.run(["ip", "link", "set", "hc0", "up"], check=True)
        with ends.given("hc0", "hc1") as made:
            assert "hc0" not in dict(map(reversed, socket.if_nameindex()))  # type: ignore[arg-type]
            made.receiver.run("ping", "-c", "1", "-W", "2", str(ends.SENDER))
        shown = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)
        flags = {link["ifname"]: link["flags"] for link in shown}
        assert "UP" in flags["hc0"]
        assert "UP" not in flags["hc1"]
    finally:
        subprocess.run(["ip", "link", "del", "hc0"], check=False)


def test_an_interface_in_use_is_refused_and_left_alone() -> None:
    subprocess.run(["ip", "link", "add", "hc0", "type", "veth", "peer", "name", "hc1"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", "10.77.0.1/24", "dev", "hc1"], check=True)
        with pytest.raises(EndsError, match="hc1: it is in use"), ends.given("hc0", "hc1"):
            pass
        assert {"hc0", "hc1"} <= {name for _, name in socket.if_nameindex()}
        with pytest.raises(EndsError, match="nothere: not found"), ends.given("hc0", "nothere"):
            pass
    finally:
        subprocess.run(["ip", "link", "del", "hc0"], check=False)


def test_one_interface_is_refused_since_two_are_needed() -> None:
    done = CliRunner().invoke(host_control, ["--interfaces", "eth1"])
    assert done.exit_code == 2
    assert "write two names" in done.output


def test_the_table_has_a_line_for_every_run(partner: tuple[Ends, Partner]) -> None:
    wire, there = partner
    found = cells.run(wire, PROCESSORS, controls.ByCondition(wire, there, PROCESSORS.partner), CELL._replace(pauses=8))
    run = {"kind": "delays", "transport": "condition", "gate": "tbf", "agent": "blocking", **found}
    lines = table({"runs": [run, run], "published": {"result": "nothing"}})
    assert len([line for line in lines if line.startswith("condition, tbf")]) == 2
