"""XCo's Figures 23 to 27: UDP at line rate and TCP, uncoordinated, and with Baton's own policy deciding. An edge: runs.

* 23: N senders of datagrams to one receiver, all at 1 Gb/s. 25: five senders, of which K send datagrams and the others TCP.
* 24: N pairs of 1 Gb/s across one link of 10 Gb/s. 26: thirteen pairs, of which K send datagrams and the others TCP.
* 27: rows of ten racks of 20 machines at 1 Gb/s, 10 Gb/s from a rack, and 10 from a row; half of the rows send to the other.

The clocks of hosts and coordinator agree, and control messages have a fixed delay and take no room on the links.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simulation.coordination import SETTINGS, Coordination, Network
from simulation.run import lines_of
from topology import shapes
from topology.fabric import Fabric

BUFFER_BYTES, LINK_DELAY_NS = 150_000, 1_000
CONTROL_NS = 50_000
MS = 1_000_000


class Experiment(NamedTuple):
    """A fabric, who sends to whom on it, by the hosts' names, and how many of the pairs, the first, send datagrams."""

    fabric: Fabric
    pairs: tuple[tuple[str, str], ...]
    datagrams: int


class Figure(NamedTuple):
    """How to make the experiment of a number, the numbers that are simulated, and what is counted in each run."""

    make: Callable[[int], Experiment]
    of: str
    counts: tuple[int, ...]
    from_ns: int
    until_ns: int


def star(senders: int, datagrams: int) -> Experiment:
    """Senders to one receiver, of a star of six."""
    fabric = shapes.star(6, shapes.GIGABIT)
    *others, receiver = fabric.hosts
    return Experiment(fabric, tuple((sender, receiver) for sender in others[:senders]), datagrams)


def uplink(senders: int, datagrams: int) -> Experiment:
    """Pairs beside one link of 10 Gb/s, of thirteen."""
    fabric = shapes.dumbbell(13, 13, shapes.GIGABIT, 10 * shapes.GIGABIT)
    return Experiment(fabric, tuple(zip(fabric.hosts[:senders], fabric.hosts[13 : 13 + senders], strict=True)), datagrams)


def rows(count: int) -> Experiment:
    """Rows of 200 machines; each of the first half's sends datagrams to its counterpart in the other half."""
    fabric = shapes.xco_rows(count)
    half = len(fabric.hosts) // 2
    return Experiment(fabric, tuple(zip(fabric.hosts[:half], fabric.hosts[half:], strict=True)), half)


FIGURES = {
    23: Figure(lambda n: star(n, n), "senders", (1, 2, 3, 4, 5), 4 * MS, 24 * MS),
    24: Figure(lambda n: uplink(n, n), "senders", (1, 4, 7, 10, 11, 12, 13), 4 * MS, 14 * MS),
    25: Figure(lambda k: star(5, k), "UDP of 5", (0, 1, 2, 3, 4, 5), 500 * MS, 2_500 * MS),
    26: Figure(lambda k: uplink(13, k), "UDP of 13", (0, 4, 7, 10, 13), 500 * MS, 1_500 * MS),
    27: Figure(rows, "rows", (2, 4, 8, 16, 24), 4 * MS, 14 * MS),
}


def case_text(experiment: Experiment, figure: Figure, *, coordinated: bool, control_ns: int = CONTROL_NS) -> str:
    """What simulation/program/tree_run.cc reads; uncoordinated nobody waits for a slot."""
    fabric = experiment.fabric
    number: Mapping[str, int] = {name: at for at, name in enumerate([*fabric.hosts, *fabric.switches])}
    routes = Network(fabric).routes
    lines = [f"hosts {len(fabric.hosts)}", f"buffer {BUFFER_BYTES}", f"control {control_ns}"]
    lines += [f"hysteresis {SETTINGS.yield_hysteresis_ns}", f"from {figure.from_ns}", f"until {figure.until_ns}"]
    for link in sorted(fabric.links):
        one, other = link.directions[0]
        lines.append(f"link {number[one]} {number[other]} {fabric.capacity_bps((one, other))} {LINK_DELAY_NS}")
    for flow, (source, target) in enumerate(experiment.pairs):
        nodes = [source, *(end for _, end in routes.path(source, target))]
        kind = "udp" if flow < experiment.datagrams else "tcp"
        lines.append(f"flow {kind} {int(coordinated)} {' '.join(str(number[node]) for node in nodes)}")
    return "\n".join([*lines, "go\n"])


def simulate(number: int, count: int, *, coordinated: bool, control_ns: int = CONTROL_NS) -> dict[str, Any]:
    """One run of a figure: the share of packets with payload that were lost, and the payload that arrived, in bit/s: of all, of
    a TCP flow and of a sender of datagrams on average (None where there are none), and of all again, with datagrams counted in
    whole messages of 64 KB alone, as a receiver of UDP gets them.

    Raises:
        RunError, ToolchainError: the simulation failed, or cannot be run here.
    """
    began = time.monotonic()
    figure = FIGURES[number]
    experiment = figure.make(count)
    place = {name: at for at, name in enumerate(experiment.fabric.hosts)}
    pairs = [(place[source], place[target]) for source, target in experiment.pairs]
    coordination = Coordination(Network(experiment.fabric), pairs, control_ns) if coordinated else None
    text = case_text(experiment, figure, coordinated=coordinated, control_ns=control_ns)
    *flows, total = lines_of("tree_run", text, answer=coordination.answer if coordination else None)
    second = 8e9 / (figure.until_ns - figure.from_ns)
    udp, tcp = flows[: experiment.datagrams], flows[experiment.datagrams :]
    received, by_tcp = (sum(flow["received"] for flow in some) for some in (flows, tcp))
    return {
        "loss": round(total["dropped"] / total["sent"], 4) if total["sent"] else 0.0,
        "goodput_bps": round(received * second),
        "whole_bps": round((by_tcp + sum(flow["whole"] for flow in udp)) * second),
        "tcp_bps": round(by_tcp * second / len(tcp)) if tcp else None,
        "udp_bps": round((received - by_tcp) * second / len(udp)) if udp else None,
        "senders": len(flows),
        "idle_senders": sum(not flow["received"] for flow in flows),
        "slots": coordination.slots if coordination else 0,
        "yields": coordination.yields if coordination else 0,
        "wall_s": round(time.monotonic() - began, 1),
    }
