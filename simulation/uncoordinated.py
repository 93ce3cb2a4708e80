"""XCo's Figures 23, 24 and 27: UDP senders at line rate, uncoordinated, and with slots from Baton's own policy. An edge: runs.

All senders always have data, so the policy's plan does not depend on what becomes of the packets: it is computed first, by the
policy that coordinators run (controller/policies/timeslice.py), and the simulated hosts keep to it. Their clocks agree, and the
control frames are not simulated.

* 23: N senders to one receiver, all at 1 Gb/s.
* 24: N pairs of 1 Gb/s across one link of 10 Gb/s.
* 27: rows of ten racks of 20 machines at 1 Gb/s, 10 Gb/s from a rack, and 10 from a row; half of the rows send to the other.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from controller.policies.base import Slot
from controller.policies.timeslice import Timeslice
from simulation.run import lines_of
from topology import shapes
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes
from topology.spanning_tree import compute

TICKS = 8
"""The policy plans so many times a slice."""
BUFFER_BYTES, LINK_DELAY_NS = 150_000, 1_000
SLICE_NS = 2_000_000
WANTED_BYTES = 1 << 40


class Experiment(NamedTuple):
    """A fabric and who sends to whom on it, by the hosts' names."""

    fabric: Fabric
    pairs: tuple[tuple[str, str], ...]


def figure_23(senders: int) -> Experiment:
    """The star of five senders, of which some send."""
    fabric = shapes.star(6, shapes.GIGABIT)
    *others, receiver = fabric.hosts
    return Experiment(fabric, tuple((sender, receiver) for sender in others[:senders]))


def figure_24(senders: int) -> Experiment:
    """Thirteen pairs beside one link, of which some send."""
    fabric = shapes.dumbbell(13, 13, shapes.GIGABIT, 10 * shapes.GIGABIT)
    return Experiment(fabric, tuple(zip(fabric.hosts[:senders], fabric.hosts[13 : 13 + senders], strict=True)))


def figure_27(rows: int) -> Experiment:
    """Rows of 200 machines; each of the first half's sends to its counterpart in the other half."""
    fabric = shapes.xco_rows(rows)
    half = len(fabric.hosts) // 2
    return Experiment(fabric, tuple(zip(fabric.hosts[:half], fabric.hosts[half:], strict=True)))


FIGURES = {23: (figure_23, (1, 2, 3, 4, 5)), 24: (figure_24, (1, 4, 7, 10, 11, 12, 13)), 27: (figure_27, (2, 4, 8, 16, 24))}
"""By figure: the experiment of a number of senders or rows, and the numbers that are simulated."""


class _Network:
    """A fabric as policies see it; nodes are the hosts' places in `Fabric.hosts`."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self.routes = fabric, Routes(fabric, compute(fabric))

    def path(self, source: int, destination: int) -> tuple[Hashable, ...]:
        return self.routes.path(self._fabric.hosts[source], self._fabric.hosts[destination])

    def capacity_bps(self, link: DirectedLink) -> int:
        return self._fabric.capacity_bps(link)

    def node_rate_bps(self, node: int) -> int:
        name = self._fabric.hosts[node]
        return self._fabric.capacity_bps((name, str(self._fabric.attachment(name))))


def planned(experiment: Experiment, until_ns: int, slice_ns: int = SLICE_NS) -> list[Slot]:
    """The slots that the policy grants while every sender always has data; all pairs are regulated."""
    policy, place = Timeslice(slice_ns=slice_ns), {name: at for at, name in enumerate(experiment.fabric.hosts)}
    pairs = [(place[source], place[target]) for source, target in experiment.pairs]
    policy.set_network(_Network(experiment.fabric), now_ns=0)
    policy.set_regulated({source: frozenset({target}) for source, target in pairs}, now_ns=0)
    for source, target in pairs:
        policy.backlog(source, {target: WANTED_BYTES}, now_ns=0)
    slots: dict[int, Slot] = {}
    tick_ns = slice_ns // TICKS
    for now_ns in range(0, until_ns, tick_ns):
        plan = policy.plan(now_ns=now_ns, horizon_ns=now_ns + slice_ns)
        slots.update((slot.slot, slot) for slot in plan.grants)
        for slot in plan.revokes:
            slots.pop(slot.slot, None)
    return [slot for slot in slots.values() if slot.start_ns < until_ns]


def case_text(experiment: Experiment, from_ns: int, until_ns: int, slots: list[Slot] | None) -> str:
    """What simulation/program/datagram_run.cc reads; without slots nobody waits for permission."""
    fabric = experiment.fabric
    names = [*fabric.hosts, *fabric.switches]
    number: Mapping[str, int] = {name: at for at, name in enumerate(names)}
    routes = Routes(fabric, compute(fabric))
    lines = [f"buffer {BUFFER_BYTES}", f"from {from_ns}", f"until {until_ns}"]
    for link in sorted(fabric.links):
        one, other = link.directions[0]
        lines.append(f"link {number[one]} {number[other]} {fabric.capacity_bps((one, other))} {LINK_DELAY_NS}")
    for source, target in experiment.pairs:
        nodes = [source, *(end for _, end in routes.path(source, target))]
        lines.append(f"flow {int(slots is not None)} {' '.join(str(number[node]) for node in nodes)}")
    place = {source: flow for flow, (source, _) in enumerate(experiment.pairs)}
    for slot in sorted(slots or (), key=lambda slot: slot.start_ns):
        lines.append(f"slot {place[fabric.hosts[slot.node]]} {slot.start_ns} {slot.bytes}")
    return "\n".join(lines) + "\n"


def loss(experiment: Experiment, *, coordinated: bool, from_ns: int, until_ns: int) -> dict[str, Any]:
    """What is lost of all datagrams and what arrives: {"loss", "goodput_bps", "senders", "idle_senders", "wall_s"}.

    Raises:
        RunError, ToolchainError: the simulation failed, or cannot be run here.
    """
    began = time.monotonic()
    slots = planned(experiment, until_ns) if coordinated else None
    found = lines_of("datagram_run", case_text(experiment, from_ns, until_ns, slots))
    sent, received = (sum(line[what] for line in found) for what in ("sent", "received"))
    return {
        "loss": round(1 - received / sent, 4) if sent else 0.0,
        "goodput_bps": round(received * 8e9 / (until_ns - from_ns)),
        "senders": len(found),
        "idle_senders": sum(not line["sent"] for line in found),
        "wall_s": round(time.monotonic() - began, 1),
    }
