"""Runs the cases of an XCo experiment under each policy, and concludes. An edge: emulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.record import Experiment, Tell, record_of
from emulation.fabric.naming import NETWORK
from emulation.measuring.confidence import together
from emulation.measuring.figures import LABELS, POLICIES
from emulation.stack.running import Running, UnderPolicy, run_under, with_baton
from emulation.traffic.experiment import Flow
from topology.fabric import Fabric
from topology.units import format_rate

GIGABIT = 10**9
SOURCE = "XCo, HPDC 2010"
BUFFER_PACKETS = 100
OVERHEAD_S = 0.7
"""What a run takes beside its warm-up and its measurement."""


class Options(NamedTuple):
    """The options of one run of an experiment."""

    quick: bool = False
    seed: int = 1
    rate_bps: int = GIGABIT
    """Of a host's link."""

    def scaled(self, size: int) -> int:
        """A size (bytes, packets) at 1 Gb/s, so that it takes the same time at this rate; at least 1."""
        return max(1, size * self.rate_bps // GIGABIT)

    def seconds(self, quick_s: float, full_s: float) -> float:
        """The length of a measurement from its length at 1 Gb/s: faster links need less time to show as much."""
        return (quick_s if self.quick else full_s) * min(4.0, max(0.2, math.sqrt(GIGABIT / self.rate_bps)))

    @property
    def slice_ns(self) -> int:
        """XCo's two timeslices: 2 ms from 1 Gb/s on, 10 ms below, where 2 ms are few packets."""
        return 2_000_000 if self.rate_bps >= GIGABIT else 10_000_000


class Layout(NamedTuple):
    """A fabric, the directed link that its flows share, and the buffer of a switch port."""

    fabric: Fabric
    bottleneck: tuple[str, str]
    buffer_packets: int = BUFFER_PACKETS


class Case(NamedTuple):
    """Flows to run together for some seconds; `at` is their place in the figure."""

    at: dict[str, Any]
    flows: Sequence[Flow]
    seconds: float
    warmup_s: float
    ping: tuple[str, str] | None = None
    ping_interval_ns: int = 10_000_000
    bucket_ns: int = 0
    policies: tuple[str, ...] = POLICIES


class Row(NamedTuple):
    """One compared value: what it is, with its unit; the published text and our figure, each by policy."""

    what: str
    published: Mapping[str, str]
    ours: Mapping[str, float | None]


class Check(NamedTuple):
    """A property that the published figure has, with our figures in words, and whether ours has it too."""

    text: str
    holds: bool


class Measured(NamedTuple):
    """The runs of an experiment as a record has them, their raw rows, and the environment."""

    runs: list[dict[str, Any]]
    raw: list[dict[str, Any]]
    environment: dict[str, Any]

    def extended(self, other: Measured) -> Measured:
        """These runs and those of another fabric."""
        shifted = [{**row, "run": row["run"] + len(self.runs)} for row in other.raw]
        return Measured(self.runs + other.runs, self.raw + shifted, self.environment or other.environment)


Rows = Callable[[Case, UnderPolicy], list[dict[str, Any]]]
More = Callable[[Case, UnderPolicy], dict[str, Any]]


def measure(
    layout: Layout,
    cases: Sequence[Case],
    options: Options,
    tell: Tell,
    *,
    coordinator: Mapping[str, Any] | None = None,
    prepare: Callable[[Running], None] = lambda running: None,
    more: More = lambda case, found: {},
    raw: Rows = lambda case, found: [],
) -> Measured:
    """Runs all cases on one fabric, uncoordinated first, then under each policy.

    Args:
        coordinator: more fields of the configuration's section `coordinator`.
        prepare: called once the fabric is up.
        more, raw: a run's own figures, and its raw rows.
    """
    policies = dict.fromkeys((*POLICIES, *(policy for case in cases for policy in case.policies)))
    planned = [(policy, case) for policy in policies for case in cases if policy in case.policies]
    lengths = [case.warmup_s + case.seconds + OVERHEAD_S for _, case in planned]
    runs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    tell("building the fabric, starting the controller", 0)
    settings = {"slice": f"{options.slice_ns}ns", **(coordinator or {})}
    with with_baton(layout.fabric, buffer_packets=layout.buffer_packets, start_agents=False, coordinator=settings) as running:
        prepare(running)
        environment = {**running.emulated.environment(), "rate_mbps": options.rate_bps / 1e6}
        for number, (policy, case) in enumerate(planned):
            done = sum(lengths[:number])

            def progress(seconds: float, label: str = _label(policy, case), done: float = done) -> None:
                tell(label, min(1.0, (done + seconds) / sum(lengths)))

            progress(0)
            found = run_under(
                running,
                policy,
                case.flows,
                duration_s=case.seconds,
                warmup_s=case.warmup_s,
                bottlenecks=[layout.bottleneck],
                ping=case.ping,
                ping_interval_ns=case.ping_interval_ns,
                bucket_ns=case.bucket_ns,
                progress=progress,
            )
            slice_ms = options.slice_ns / 1e6 if policy in ("timeslice", "auto") else None
            rows += [{"run": number, **row} for row in raw(case, found)]
            runs.append({**case.at, "policy": policy, "slice_ms": slice_ms, **found.to_dict(), **more(case, found)})
    return Measured(runs, rows, environment)


def tcp_of_2010(running: Running) -> None:
    """Gives all hosts the TCP that XCo was measured with: no tail loss probes, no RACK, an initial window of three segments.

    Linux has these since 3.10, 4.4, and 2.6.39 (ten segments, RFC 6928).
    """
    for host in running.emulated.fabric.hosts:
        running.emulated.run_in(host, "sysctl", "-qw", "net.ipv4.tcp_early_retrans=0", "net.ipv4.tcp_recovery=0")
        route = running.emulated.run_in(host, "ip", "-4", "route", "show", str(NETWORK)).split()
        running.emulated.run_in(host, "ip", "-4", "route", "replace", *route, "initcwnd", "3")


def concluded(
    title: str,
    published: Mapping[str, Any],
    measured: Measured,
    options: Options,
    *,
    scale: str,
    rows: Sequence[Row],
    checks: Sequence[Check],
) -> Experiment:
    """The experiment's record: published values beside ours, and the verdict that the checks give."""
    said = verdict(checks)
    names = {", ".join(f"{name} {value}" for name, value in _place(run).items()): run for run in measured.runs}
    record = record_of(
        title,
        {"source": SOURCE, **published},
        measured.runs,
        scale=f"{format_rate(options.rate_bps)} hosts, {scale}",
        seed=options.seed,
        quick=options.quick,
        confidence=together(names),
        environment=measured.environment,
    )
    compared = [{"what": row.what, "published": dict(row.published), "ours": dict(row.ours)} for row in rows]
    return Experiment({**record, "compared": compared, "verdict": said}, measured.raw)


def verdict(checks: Sequence[Check], unpublished: str = "") -> str:
    """One sentence: which properties of the published figure ours has, and which it has not. `unpublished`: a sentence before
    it which says that no published value is at hand; then what is seen is not called as published."""
    yes, no = (f"{unpublished} Seen", f"{unpublished} Not seen") if unpublished else ("As published", "Not as published")
    met = "; ".join(check.text for check in checks if check.holds)
    missed = "; ".join(check.text for check in checks if not check.holds)
    if not missed:
        return f"{yes}: {met}."
    return f"{yes}: {met}; but not: {missed}." if met else f"{no}: {missed}."


def select(runs: Sequence[Mapping[str, Any]], **place: object) -> Mapping[str, Any]:
    """The run at a place in the figure. Raises KeyError: there is none."""
    for run in runs:
        if all(run.get(name) == value for name, value in place.items()):
            return run
    raise KeyError(place)


def by_policy(runs: Sequence[Mapping[str, Any]], value: str, **place: object) -> dict[str, float | None]:
    """One value of the runs at a place, by policy."""
    return {run["policy"]: run[value] for run in runs if all(run.get(name) == one for name, one in place.items())}


def label(policy: str) -> str:
    """A policy's name in a sentence."""
    return LABELS.get(policy, policy.replace("_", " "))


def published_for(without: str, limited: str, sliced: str) -> dict[str, str]:
    """Published texts by policy."""
    return dict(zip(POLICIES, (without, limited, sliced), strict=True))


def _label(policy: str, case: Case) -> str:
    return ", ".join((label(policy), *(f"{name} {value}" for name, value in case.at.items())))


def _place(run: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a run from the others: all before its measured values."""
    found = {}
    for name, value in run.items():
        if name == "slice_ms":
            break
        found[name] = value
    return found
