"""`baton bench host-control`: off and on delays, residual packets, throughput, over one wire. An edge: runs them all.

Method: one wire, a veth pair or two given interfaces, each end in a network namespace of its own. The sender's end has Baton's
queues; at the receiver's end the kernel timestamps every packet that arrives (`capture`). The benchmark keeps the processors
from sleeping, the agent's by a program that gives way to every other (emulation/measuring/wakeful.py): how deep a processor
sleeps depends on the hardware and its operator, not on Baton. Every run says whether the machine kept up
(emulation/measuring/fidelity.py).

* Delays (`cells`): every gate that the kernel offers, commanded directly; and an agent, blocking and polling, commanded by PFC
  frames and by Baton's own conditions. Packets of 64, 500 and 1000 bytes, 2 to 16 flows, each closed and opened in turn.
* Days (`weeks`): 16 flows on days of 40 ms, 2 ms and 200 us, and 64 flows, by Baton's schedule and by PFC frames with classes
  remapped every week.
* Throughput (`throughput`): TCP without control, with idle control, and beside a flow that is closed and opened all the time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

from agents.kernel.probe import probe
from agents.loop.clock import AN_ANCHOR
from bench.host_control import cells, controls, throughput, weeks
from bench.host_control.cells import Cell
from bench.host_control.controls import AgentOptions, ByAgent, ByCondition, ByPfc, Control
from bench.host_control.days import Plan
from bench.host_control.ends import MAX_FLOWS, Ends, given, veth_pair
from bench.host_control.load import Commander, Processors, load
from bench.host_control.partner import Partner
from emulation.measuring.confidence import together
from emulation.measuring.fidelity import environment
from emulation.measuring.wakeful import occupied, wakeful
from protocol.bodies.host_control import Transport

Tell = Callable[[str, float], None]
"""A progress callback: gets the name of the current step, and the share of the benchmark that is done."""
DELAY_RATE_BPS = 10_000_000_000
"""The thesis's link. A veth pair is as fast as its sender, which is slower."""
PAUSES, QUICK_PAUSES = 480, 96
WARM_FLOWS, WARM_S, WARM_PPS = 16, 0.4, 20_000
CLOCK_PINGS, CLOCK_S = 4 * AN_ANCHOR, 15.0
"""The benchmark measures days once the agent knows its clock's drift: after four anchors."""
TARGETS = {
    "blocking": {"p50_us": 50, "range_us": 150},
    "busy": {"p50_us": 20},
    "throughput_idle_percent": 3,
    "residual_after_close": {"tbf": 1, "plug": 0},
}

PUBLISHED_SOURCE = "Fine-Grained End-Host Traffic Control; delays of an Intel 82599 (PFC), of SDD on DPDK, and of an NFP"
PUBLISHED_ROWS: tuple[dict[str, Any], ...] = (
    {"mechanism": "PFC, 82599", "off_us": {"min": 1.0, "max": 2.2}, "on_us": {"min": 1.2, "max": 1.3}},
    {"mechanism": "SDD, DPDK", "off_us": {"mean": 10.0, "range": 4.0}, "on_us": {"mean": 12.0, "range": 4.0}},
    {"mechanism": "NFP, 16 queues, 64 B", "off_us": {"mean": 2.48, "std": 1.26}, "on_us": {"mean": 4.40, "std": 1.47}},
)
_OFF_US = {2: (2.81, 1.28, 3.63, 1.48, 4.66, 10.83), 4: (2.08, 1.32, 2.37, 2.06, 3.01, 3.83),
           8: (1.52, 1.25, 1.78, 2.97, 2.12, 3.03), 16: (1.25, 0.87, 1.43, 1.22, 1.75, 1.19)}  # fmt: skip
_ON_US = {2: (4.32, 1.53, 4.99, 1.17, 5.33, 1.68), 4: (4.30, 1.01, 4.61, 1.20, 5.47, 1.25),
          8: (4.44, 1.58, 4.84, 0.90, 5.57, 1.61), 16: (4.31, 1.24, 5.39, 3.10, 5.47, 1.28)}  # fmt: skip
"""By number of flows: mean and deviation of delays with packets of 64, 500 and 1000 bytes."""


def _by_size(values: tuple[float, ...]) -> dict[str, dict[str, float]]:
    return {f"{size} B": {"mean": values[at], "std": values[at + 1]} for at, size in ((0, 64), (2, 500), (4, 1000))}


PUBLISHED_TABLES: dict[str, dict[str, Any]] = {
    "4.1": {
        "off_us": {"mean": 2.48, "std": 1.26, "range": 6.77, "min": 0.04, "max": 6.82},
        "on_us": {"mean": 4.40, "std": 1.47, "range": 8.27, "min": 0.14, "max": 8.40},
        "schedule_packets": {"sent": 100_000, "apart_us": 100, "usable_off": 5_802, "usable_on": 5_780},
    },
    "4.2": {"off_us": {flows: _by_size(values) for flows, values in _OFF_US.items()}},
    "4.3": {"on_us": {flows: _by_size(values) for flows, values in _ON_US.items()}},
    "4.4": {"off_us_of_each_of_4_flows": {"64 B": (1.96, 2.04), "500 B": (2.32, 2.53), "1000 B": (2.78, 3.00)}},
    "4.5": {"on_us_of_each_of_4_flows": {"64 B": (4.04, 4.20), "500 B": (4.49, 4.81), "1000 B": (5.21, 5.39)}},
    "4.6, 4.7": {
        "sending_gbps": 5.5,
        "receiving_gbps": {"one flow": 3.6, "more than two flows": 4.2},
        "with_schedule_packets": "the same",
    },
    "5.1": {
        "PFC": {"off_us": (1.0, 2.2), "on_us": (1.2, 1.3)},
        "SDD": {"off_us": 10, "on_us": 12, "range_us": 4, "whole_range_at_1_gbps_us": 8},
    },
}
PUBLISHED_RESIDUAL = {
    "2.4 to 2.7": "8 to 9 packets of the packet buffer after a remapping, then 1 to 2 in 500 to 800 of a rate-limited ring",
}
PUBLISHED_RESULT = (
    "PFC (82599) off 1.0 to 2.2 us, on 1.2 to 1.3; SDD means 10 and 12, range about 4; NFP 2.48 +- 1.26 and 4.40 +- 1.47; "
    "8 to 9 residual packets after a remapping"
)


class Options(NamedTuple):
    """What one run of the benchmark measures. `parts`: some of delays, days, throughput."""

    quick: bool = False
    seed: int = 1
    interfaces: tuple[str, str] | None = None
    parts: tuple[str, ...] = ("delays", "days", "throughput")


class Results(NamedTuple):
    """`record` is what --json writes; `stairs` the points of the staircase plots, by the run's index in the record."""

    record: dict[str, Any]
    stairs: dict[int, list[tuple[float, int, bool]]]


@cache
def gates() -> tuple[str, ...]:
    """The kinds of gate that this kernel has."""
    there = {feature.name for feature in probe() if feature.kind == "qdisc" and feature.present}
    return tuple(gate for gate in ("tbf", "plug") if gate in there)


def grid(quick: bool) -> list[Cell]:
    """The cells of the tables."""
    sizes, flows, pauses = ((64, 1000), (2, 16), QUICK_PAUSES) if quick else (cells.SIZES, cells.FLOWS, PAUSES)
    return [Cell(size, count, pauses) for size in sizes for count in flows]


def plans(quick: bool) -> list[Plan]:
    """The runs of the figures. A night is longer than the uncertainty of the agent's clock."""
    found = []
    for flows, day_ns, days, quick_days in (
        (16, 40_000_000, 48, 0), (16, 2_000_000, 480, 96), (16, 200_000, 1600, 160), (64, 2_000_000, 512, 128),
    ):  # fmt: skip
        count = quick_days if quick else days
        found += [Plan(transport, flows, day_ns, 100_000, count) for transport in Transport if count]
    return found


def run(options: Options, tell: Tell) -> Results:
    """Runs the parts that the options name. Raises EndsError, OSError, BuildError, BpfError."""
    steps = _Steps(options, tell)
    wire: AbstractContextManager[Ends] = given(*options.interfaces) if options.interfaces else veth_pair()
    processors = Processors.found()
    with wire as ends, wakeful() as awake, processors.apart(), occupied(processors.agent):
        runs, stairs = list[dict[str, Any]](), dict[int, list[tuple[float, int, bool]]]()
        if "delays" in options.parts:
            for gate in gates():
                runs += _directly(ends, processors, gate, options, steps)
                for busy in (False, True):
                    runs += _by_agent(ends, processors, AgentOptions(DELAY_RATE_BPS, gate, busy), options, steps)
        if "days" in options.parts:
            for busy in (False, True):
                for found in _days(ends, processors, busy, options, steps):
                    stairs[len(runs)] = found.stairs
                    runs.append(found.record)
        if "throughput" in options.parts:
            seconds, rounds = (1.5, 1) if options.quick else (5.0, 3)
            found_throughput = throughput.run(
                ends, processors, seconds=seconds, rounds=rounds, tell=lambda what: steps.next(what)
            )
            runs.append({"kind": "throughput", **found_throughput})
        about = environment(
            wire=ends.name, awake=awake, occupied=processors.agent, gates=gates(),
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )  # fmt: skip
    return Results(
        {
            "title": "Fine-grained host control: off and on delays, residual packets, throughput",
            "published": published(),
            "targets": TARGETS,
            "quick": options.quick,
            "seed": options.seed,
            "confidence": together({_named(number, one): one["trust"] for number, one in enumerate(runs)}),
            "runs": runs,
            "environment": about,
        },
        stairs,
    )


def _named(number: int, run: dict[str, Any]) -> str:
    """A run's name in a sentence."""
    words = [run["kind"], *(str(run[name]) for name in ("transport", "gate", "agent") if name in run)]
    return f"run {number + 1} ({', '.join(words)})"


class _Steps:
    """Tells the progress callback which step runs and how many are done."""

    def __init__(self, options: Options, tell: Tell) -> None:
        self._tell = tell
        self._done = 0
        each = len(grid(options.quick))
        days = 2 * len(plans(options.quick))
        rounds = len(throughput.CASES) * (1 if options.quick else 3)
        weight = {"delays": 5 * len(gates()) * each, "days": days, "throughput": rounds}
        self._total = sum(weight[part] for part in options.parts)

    def next(self, what: str) -> None:
        """Says that a step begins."""
        self._tell(what, self._done / self._total)
        self._done += 1


def _directly(ends: Ends, processors: Processors, gate: str, options: Options, steps: _Steps) -> Iterator[dict[str, Any]]:
    with controls.direct(ends, processors, gate, DELAY_RATE_BPS, WARM_FLOWS) as control:
        yield from _cells(ends, processors, control, {"transport": "none", "gate": gate, "agent": "none"}, options, steps)


def _by_agent(
    ends: Ends, processors: Processors, how: AgentOptions, options: Options, steps: _Steps
) -> Iterator[dict[str, Any]]:
    with controls.agent(ends, processors, how, WARM_FLOWS) as partner:
        _warm_up(ends, processors, partner, WARM_FLOWS)
        ways: list[tuple[str, ByAgent]] = [
            ("condition", ByCondition(ends, partner, processors.partner)),
            ("pfc", ByPfc(ends, partner, processors.partner)),
        ]
        for transport, control in ways:
            kind = {"transport": transport, "gate": how.gate, "agent": "busy" if how.busy_poll else "blocking"}
            yield from _cells(ends, processors, control, kind, options, steps, busy=how.busy_poll)


def _warm_up(ends: Ends, processors: Processors, partner: Partner, flows: int) -> None:
    """Sends packets of every flow: the agent makes a flow's queue at its first packet."""
    with load(ends, processors, Commander(processors.partner, 1), flows=flows, size=64, seconds=WARM_S, pps=WARM_PPS):
        partner.wait(lambda: False, WARM_S)


def _cells(
    ends: Ends, processors: Processors, control: Control, kind: dict[str, str], options: Options, steps: _Steps,
    *, busy: bool = False,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    for cell in grid(options.quick):
        steps.next(f"{kind['transport']}, {kind['gate']}, {kind['agent']}: {cell.flows} flows of {cell.size} B")
        yield {"kind": "delays", **kind, **cells.run(ends, processors, control, cell, busy=busy, seed=options.seed)}


def _days(ends: Ends, processors: Processors, busy: bool, options: Options, steps: _Steps) -> Iterator[weeks.WeeksResult]:
    numbers = itertools.count(1)
    how = AgentOptions(weeks.RATE_BPS, busy_poll=busy)
    with controls.agent(ends, processors, how, MAX_FLOWS) as partner:
        _warm_up(ends, processors, partner, MAX_FLOWS)
        partner.wait(lambda: partner.answered >= CLOCK_PINGS, CLOCK_S)
        for plan in plans(options.quick):
            steps.next(f"{plan.flows} flows, days of {plan.day_ns / 1e6:g} ms by {plan.transport.name.lower()}")
            found = weeks.run(ends, processors, partner, plan, numbers, busy=busy)
            record = {"kind": "days", "gate": how.gate, "agent": "busy" if busy else "blocking", **found.record}
            yield found._replace(record=record)


def published() -> dict[str, Any]:
    """The thesis's published values, for the JSON record."""
    return {
        "source": PUBLISHED_SOURCE,
        "result": PUBLISHED_RESULT,
        "rows": list(PUBLISHED_ROWS),
        "tables": PUBLISHED_TABLES,
        "residual": PUBLISHED_RESIDUAL,
    }
