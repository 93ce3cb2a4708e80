"""Runs traffic patterns on a fabric of several tiers under each policy, and compares with max-min fairness. An edge: emulation.

Method: the emulated fabric with Baton's controller side over it, which computes the spanning tree; uncoordinated first, then
with an agent on each host under each policy. Goodput is what the receiving application got; its ideal is the flow's max-min
share of all links on its path, all of their capacity counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from bench.fabrics import ideal
from bench.fabrics.patterns import PATTERNS, SHAPES, Pattern, Traffic
from bench.record import Experiment, Tell, record_of
from bench.style import SPARE, Series, bars, panels, save
from controller.policies import POLICIES
from controller.switch_queues.model import SwitchQueues
from emulation.measuring.confidence import sure, together
from emulation.measuring.figures import LABELS
from emulation.measuring.measure import jain
from emulation.stack.running import UNCOORDINATED, Running, UnderPolicy, run_under, with_baton
from emulation.traffic.experiment import Outcome
from topology.fabric import DirectedLink, Fabric
from topology.units import format_rate

BUFFER_PACKETS = 100
OVERHEAD_S = 0.7
"""What a run takes beside its warm-up and its measurement."""
Each = Callable[[dict[str, Any]], None]
PREFERRED = (UNCOORDINATED, "free", "rate_limit", "timeslice", "auto")
GOALS = {"result": "auto: 0.95 of the max-min ideal in sum, each flow 0.9 of its share, drops 0.01 %, ping p99 one slice"}
SUM, FLOW, DROPS = 0.95, 0.9, 1e-4


class Options(NamedTuple):
    """The options of one run of the experiment."""

    shape: str = "three-tier"
    patterns: tuple[str, ...] = tuple(PATTERNS)
    policies: tuple[str, ...] = ()
    """Empty: `PREFERRED`, as far as they exist."""
    rate_bps: int = 10**9
    above_bps: int | None = None
    """Of all links between switches; None: mixed, half as fast again as a host's and twice as fast."""
    round_trips_ns: tuple[int, ...] = (0,)
    controls: tuple[str, ...] = ("cubic",)
    connections: int = 1
    slice_ns: int = 2_000_000
    seconds: float = 2.0
    warmup_s: float = 1.0
    trace_ns: int = 0
    quick: bool = False
    seed: int = 1


def policies(wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The policies to measure, uncoordinated first. Raises ValueError: there is no such policy, or it needs a schedule."""
    known = (UNCOORDINATED, *(name for name in POLICIES if name != "weekly"))
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"{unknown[0]!r} cannot be measured here; choose from {', '.join(known)}")
    chosen = dict.fromkeys(wanted or (name for name in PREFERRED if name in known))
    return tuple(sorted(chosen, key=lambda name: name != UNCOORDINATED))


def started(fabric: Fabric, options: Options, round_trip_ns: int, control: str) -> AbstractContextManager[Running]:
    """The fabric with Baton over it, still without agents; raises as `with_baton`."""
    return with_baton(
        fabric,
        buffer_packets=BUFFER_PACKETS,
        start_agents=False,
        emulation=emulation(round_trip_ns, control),
        coordinator={"slice": f"{options.slice_ns}ns"},
    )


def run(options: Options, tell: Tell, each: Each = lambda run: None) -> Experiment:
    """Measures every pattern under every policy, for each round trip and congestion control, each on a fabric of its own.

    `each` gets the record of each run as soon as it is measured.
    """
    fabric = SHAPES[options.shape](options.rate_bps, options.above_bps)
    traffic = Traffic(options.rate_bps, options.connections, options.trace_ns)
    patterns = {name: PATTERNS[name](fabric, traffic) for name in options.patterns}
    settings = [(round_trip, control) for round_trip in options.round_trips_ns for control in options.controls]
    runs: list[dict[str, Any]] = []
    environment: dict[str, Any] = {}
    for number, (round_trip_ns, control) in enumerate(settings):
        part = 1 / len(settings)
        tell("building the fabric, starting the controller", number * part)
        with started(fabric, options, round_trip_ns, control) as running:
            environment = {**running.emulated.environment(), "rate_mbps": options.rate_bps / 1e6}
            at = {"round_trip_us": round_trip_ns / 1e3, "congestion_control": control}
            for done, found in _on(running, fabric, patterns, options, tell, number * part, part):
                runs.append({**at, **found})
                each(runs[-1])
                tell("", number * part + done * part)
    return Experiment(record(options, runs, environment), [])


def emulation(round_trip_ns: int, control: str) -> dict[str, Any]:
    """The arguments of `EmulatedFabric` for a round trip and a congestion control."""
    # DCTCP without marks is Reno.
    queues = SwitchQueues(buffer_packets=BUFFER_PACKETS).alike() if control == "dctcp" else None
    return {"round_trip_ns": round_trip_ns, "congestion_control": control, "queues": queues}


def _on(
    running: Running,
    fabric: Fabric,
    patterns: dict[str, Pattern],
    options: Options,
    tell: Tell,
    begin: float,
    part: float,
) -> Iterator[tuple[float, dict[str, Any]]]:
    """The runs on one fabric, each with the share of them that is done."""
    planned = [(policy, name) for policy in policies(options.policies) for name in patterns]
    each = options.warmup_s + options.seconds + OVERHEAD_S
    for number, (policy, name) in enumerate(planned):
        pattern = patterns[name]

        def progress(seconds: float, text: str = f"{policy}, {name}", number: int = number) -> None:
            tell(text, begin + part * (number + min(1.0, seconds / each)) / len(planned))

        progress(0)
        from_switches = switch_links(fabric, pattern)
        found = run_under(
            running,
            policy,
            pattern.flows,
            duration_s=options.seconds,
            warmup_s=options.warmup_s,
            bottlenecks=from_switches,
            ping=pattern.ping,
            sample_occupancy=bool(options.trace_ns),
            progress=progress,
        )
        choices = running.baton.status().get("choices", []) if policy != UNCOORDINATED else []
        trace = {"trace": _trace(running, found, options.warmup_s)} if options.trace_ns else {}
        made = {"pattern": name, "policy": policy, **_figures(fabric, pattern, found), "choices": choices, **trace}
        yield (number + 1) / len(planned), made


def switch_links(fabric: Fabric, pattern: Pattern) -> list[DirectedLink]:
    """The directed links on the flows' paths that leave a switch: there packets wait, and are dropped."""
    crossed = dict.fromkeys(link for path in ideal.paths(fabric, pattern.flows) for link in path)
    return [link for link in crossed if not fabric.is_host(link.source)]


def _figures(fabric: Fabric, pattern: Pattern, found: UnderPolicy) -> dict[str, Any]:
    """A run's record: that of the emulation, and each flow beside its max-min share."""
    outcome = found.outcome
    made = found.to_dict()
    for flow in made["flows"]:
        flow.pop("trace", None)
    shares = [rate / 1e6 for rate in ideal.goodputs_bps(fabric, pattern.flows)]
    parts = [flow.goodput_mbps / share for flow, share in zip(outcome.flows, shares, strict=True)]
    for flow, share, part in zip(made["flows"], shares, parts, strict=True):
        flow |= {"ideal_mbps": round(share, 2), "of_ideal": round(part, 4)}
    return {
        **made,
        "ideal_mbps": round(sum(shares), 2),
        "of_ideal": round(outcome.goodput_mbps / sum(shares), 4),
        "least_of_ideal": round(min(parts), 4),
        "jain_of_ideal": round(jain(parts), 4),
        "drop_share": drop_share(fabric, outcome),
        "dropped_at": {"-".join(link): port.drops for link, port in outcome.ports.items() if port.drops},
    }


def drop_share(fabric: Fabric, outcome: Outcome) -> float:
    """Of the data packets that observed ports dropped or handed to a host, the part that was dropped. Control frames are in
    neither."""
    arrived = sum(port.sent for link, port in outcome.ports.items() if fabric.is_host(link.target))
    dropped = sum(port.drops for port in outcome.ports.values())
    return round(dropped / max(1, arrived + dropped), 6)


def _trace(running: Running, found: UnderPolicy, warmup_s: float) -> dict[str, Any]:
    """What a run looked like in time: connections as their senders saw them, what became of slots, and the ports' queues.

    Returns:
        "flows": {"h2-h6": what workloads.tcp_send returns as "trace", in ns since the beginning of the flows}; "slots": rows as
        controller/scheduling/telemetry.py writes them; "queues": {"t3-h6": [[us, packets]]}; "began_us" and "measured_from_us":
        the beginnings of the flows and of the measurement. Times in us are those of CLOCK_MONOTONIC.
    """
    outcome = found.outcome
    measured_us = outcome.started_ns // 1000
    rows = [
        row
        for _, batch in (running.baton.store.feeds.slots_after(None) if running.baton.agents else ())
        for row in batch["rows"]
        if row[4] >= measured_us
    ]
    return {
        "began_us": measured_us - round(warmup_s * 1e6),
        "measured_from_us": measured_us,
        "flows": {f"{flow.flow.source}-{flow.flow.destination}": flow.sender.get("trace", []) for flow in outcome.flows},
        "slots": rows,
        "queues": {
            "-".join(link): [[at // 1000, count] for at, count in zip(seen.times_ns, seen.packets, strict=True)]
            for link, seen in outcome.occupancy.items()
            if any(seen.packets)
        },
    }


def record(options: Options, runs: Sequence[dict[str, Any]], environment: dict[str, Any]) -> dict[str, Any]:
    """The record of the runs, with its verdict."""
    above = f"{format_rate(options.above_bps)} above" if options.above_bps else "1.5 and 2 times as fast above"
    made = record_of(
        f"Fabric {options.shape}",
        {"source": "Baton's goals", **GOALS},
        runs,
        scale=f"{format_rate(options.rate_bps)} hosts, {above}, port buffer {BUFFER_PACKETS} packets, "
        f"slices {options.slice_ns / 1e6:g} ms, {options.connections} connections a TCP flow",
        seed=options.seed,
        quick=options.quick,
        confidence=together({", ".join(map(str, place(run).values())): run for run in runs}),
        environment=environment,
    )
    return {**made, "slice_ms": options.slice_ns / 1e6, "verdict": verdict(runs, options.slice_ns / 1e6)}


def place(run: dict[str, Any]) -> dict[str, Any]:
    """What tells a run from the others."""
    return {name: run[name] for name in ("round_trip_us", "congestion_control", "pattern", "policy")}


def verdict(runs: Sequence[dict[str, Any]], slice_ms: float) -> str:
    """Whether the default policy meets the goals, in a sentence; with the runs in which it does not."""
    judged = [run for run in runs if run["policy"] == "auto"]
    if not judged:
        return "Measured; the policy auto, whose goals these are, was not."
    missed = []
    for run in judged:
        p99 = run["rtt_ms"]["p99"]
        problems = [
            text
            for text, met in (
                (f"{run['of_ideal']:.0%} of the ideal", run["of_ideal"] >= SUM),
                (f"a flow with {run['least_of_ideal']:.0%} of its share", run["least_of_ideal"] >= FLOW),
                (f"{run['drop_share']:.2%} dropped", run["drop_share"] <= DROPS),
                (f"{run['pings']['lost']} pings lost", run["pings"]["lost"] == 0),
                (f"ping p99 {p99} ms", p99 is not None and p99 <= slice_ms + run["round_trip_us"] / 1e3),
            )
            if not met
        ]
        if problems:
            where = f"round trip {run['round_trip_us']:g} us, {run['congestion_control']}, {run['pattern']}"
            missed.append(f"{where}: {', '.join(problems)}")
    if not missed:
        return f"All goals are met in {len(judged)} runs of auto."
    return f"Goals are met in {len(judged) - len(missed)} of {len(judged)} runs of auto; not in {'; '.join(missed)}."


def draw(found: Experiment, path: Path) -> None:
    """Draws, by pattern, a group of bars for each flow with a bar for each policy, and a line at the flow's max-min share.

    Of several round trips and congestion controls it draws the first.
    """
    runs = found.record["runs"]
    first = [run for run in runs if all(run[name] == runs[0][name] for name in ("round_trip_us", "congestion_control"))]
    patterns = list(dict.fromkeys(run["pattern"] for run in first))
    figure, axes = panels(len(patterns), 1, width=10)
    for (axis,), pattern in zip(axes, patterns, strict=True):
        own = [run for run in first if run["pattern"] == pattern]
        flows = own[0]["flows"]
        series = [
            Series(
                LABELS.get(run["policy"], run["policy"]),
                SPARE[number % len(SPARE)],
                [flow["goodput_mbps"] for flow in run["flows"]],
                [sure(run)] * len(flows),
            )
            for number, run in enumerate(own)
        ]
        bars(axis, [f"{flow['kind'].upper()} {flow['source']}-{flow['destination']}" for flow in flows], series)
        for at, flow in enumerate(flows):
            axis.plot((at - 0.42, at + 0.42), (flow["ideal_mbps"],) * 2, color="grey", linestyle=":")
        axis.set(ylabel="goodput, Mb/s", title=f"{pattern} (dotted: max-min share)")
        axis.legend(frameon=False, fontsize=8, ncols=len(series), loc="upper left", bbox_to_anchor=(0, -0.12))
    save(figure, found.record, path)
