"""TCP flows that come at random, on a fabric of several tiers, under each policy: how long they take. An edge: emulation.

Method: one list of flows (Poisson arrivals, sizes of a published workload, between all hosts or into the last one) runs
uncoordinated first, then with an agent on each host under each policy, on one fabric. A flow's time runs from its connect to
its last byte at the receiver. Flows that start in the warm-up are not measured: meanwhile the controller learns which links are
contended. Beside them stands what max-min fair fluids would take (`bench.fabrics.fluid`). Drops are those of all switch ports
since the warm-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.fabrics import fluid
from bench.fabrics.experiment import BUFFER_PACKETS, Each, emulation, policies
from bench.fabrics.patterns import SHAPES
from bench.record import Experiment, Tell, record_of
from bench.style import SPARE, Series, bars, panels, save
from emulation import cdfs
from emulation.measuring.confidence import sure, together
from emulation.measuring.figures import LABELS
from emulation.stack.running import UNCOORDINATED, Running, with_baton
from emulation.traffic import flow_run
from emulation.traffic.flow_run import FlowResult
from emulation.traffic.flow_schedule import Mixture, Schedule, kept_bytes, poisson, scaled
from emulation.traffic.flow_stats import by_size
from topology.fabric import Fabric
from topology.units import format_rate

PUBLISHED_BPS = 10**9
EDGES = (100_000, 1_000_000)
"""Of the bins of sizes at `PUBLISHED_BPS`, bytes; with other rates sizes are scaled, so that times stay alike."""
MOST_BYTES = 10_000_000
"""Without flows above this size at that rate: runs are too short for them."""
DRAIN_S = 4.0
ONE, ALL = "one", "all"
UNMARKED = Mixture(shares=(0.0, 0.0, 1.0))
PREFERRED = (UNCOORDINATED, "auto")


class Options(NamedTuple):
    """The options of one run of the experiment. `load`: of each host's link if all receive, else of the last one's."""

    shape: str = "three-tier"
    receivers: str = ALL
    load: float = 0.4
    workload: str = "web_search"
    policies: tuple[str, ...] = PREFERRED
    rate_bps: int = PUBLISHED_BPS
    round_trip_ns: int = 0
    control: str = "cubic"
    slice_ns: int = 2_000_000
    seconds: float = 3.0
    warmup_s: float = 1.0
    quick: bool = False
    seed: int = 1

    @property
    def scale(self) -> float:
        return self.rate_bps / PUBLISHED_BPS


def flows(fabric: Fabric, options: Options) -> Schedule:
    """The list of flows. Raises ValueError: there is no such workload."""
    hosts = fabric.hosts
    sources = [(source, hosts[-1]) for source in hosts[:-1]]
    pairs = sources if options.receivers == ONE else [(a, b) for a in hosts for b in hosts if a != b]
    coming = poisson(
        scaled(cdfs.load(options.workload), options.scale, MOST_BYTES * options.scale),
        load=options.load * (1 if options.receivers == ONE else len(hosts)),
        rate_bps=options.rate_bps,
        duration_ns=round((options.warmup_s + options.seconds) * 1e9),
        pairs=pairs,
        mixture=UNMARKED,
        seed=options.seed,
    )
    return Schedule(coming.flows, coming.length_ns, round(options.warmup_s * 1e9))


def run(options: Options, tell: Tell, each: Each = lambda run: None) -> Experiment:
    """Runs the flows under each policy; `each` gets the record of each run as soon as it is measured.

    Raises ValueError: there is no such workload or policy.
    """
    fabric = SHAPES[options.shape](options.rate_bps, None)
    schedule, names = flows(fabric, options), policies(options.policies)
    took = fluid.completion_ns(fabric, schedule.flows)
    best = [FlowResult(flow, flow.start_ns, took[flow.number], flow.size_bytes, 0, "", "complete") for flow in schedule.flows]
    ideal = _figures(best, schedule, options)
    each({"policy": "fluids", **ideal})
    runs, raw = list[dict[str, Any]](), list[dict[str, Any]]()
    tell("building the fabric, starting the controller", 0)
    with with_baton(
        fabric,
        buffer_packets=BUFFER_PACKETS,
        start_agents=False,
        emulation=emulation(options.round_trip_ns, options.control),
        coordinator={"slice": f"{options.slice_ns}ns"},
    ) as running:
        environment = running.emulated.environment()
        for number, policy in enumerate(names):

            def progress(seconds: float, policy: str = policy, number: int = number) -> None:
                tell(policy, (number + min(1.0, seconds * 1e9 / schedule.length_ns)) / len(names))

            progress(0)
            found = _under(running, policy, fabric, schedule, progress)
            runs.append({"policy": policy, **_figures(found.results, schedule, options), **_counts(found, schedule)})
            raw += [{"policy": policy, **result.row()} for result in found.results]
            each(runs[-1])
    return Experiment(_record(options, runs, ideal, environment), raw)


def _under(
    running: Running, policy: str, fabric: Fabric, schedule: Schedule, progress: Callable[[float], None]
) -> flow_run.FlowRun:
    if policy != UNCOORDINATED:
        if not running.baton.agents:
            running.baton.start_agents()
        running.baton.set_policy(policy)
    last = fabric.hosts[-1]
    return flow_run.run(
        running.emulated,
        schedule,
        port=(str(fabric.attachment(last)), last),
        drain_s=DRAIN_S,
        host_queues=policy == UNCOORDINATED,
        progress=progress,
    )


def _figures(results: Sequence[FlowResult], schedule: Schedule, options: Options) -> dict[str, Any]:
    measured = [result for result in results if result.flow.start_ns >= schedule.warm_up_ns]
    return {"completion": by_size(measured, [round(edge * options.scale) for edge in EDGES])}


def _counts(found: flow_run.FlowRun, schedule: Schedule) -> dict[str, Any]:
    """What was sent again, by the flows that are measured, and lost since the warm-up."""
    retransmits = sum(result.retransmits for result in found.results if result.flow.start_ns >= schedule.warm_up_ns)
    lost = {"-".join(link): packets for link, packets in found.lost.items()}
    return {"retransmits": retransmits, "drops": sum(lost.values()), "drops_by_link": lost, "trust": found.trust()}


def _record(
    options: Options, runs: Sequence[dict[str, Any]], ideal: dict[str, Any], environment: dict[str, Any]
) -> dict[str, Any]:
    into = "into the last host" if options.receivers == ONE else "between all hosts"
    made = record_of(
        f"Random flows on {options.shape}",
        {"source": "Baton's goals", "result": "auto: no class of flows takes longer in the mean than uncoordinated"},
        runs,
        scale=f"{format_rate(options.rate_bps)} hosts, {_sizes(options)} {into} at load {options.load:g}, "
        f"round trip {options.round_trip_ns / 1e3:g} us, {options.control}, slices {options.slice_ns / 1e6:g} ms",
        seed=options.seed,
        quick=options.quick,
        confidence=together({run["policy"]: run["trust"] for run in runs}),
        environment=environment,
    )
    return {**made, "fluids": ideal, "verdict": verdict(runs, ideal)}


def _sizes(options: Options) -> str:
    """The workload, and how much of it the flows are that are not too large."""
    cap = MOST_BYTES * options.scale
    left = kept_bytes(cdfs.load(options.workload), options.scale, cap)
    cut = f" without flows above {cap / 1e6:g} MB ({left:.2g} of its bytes are left)" if left < 1 else ""
    return f"{options.workload}{cut}"


def verdict(runs: Sequence[dict[str, Any]], ideal: dict[str, Any]) -> str:
    """How the default policy compares with no coordination, in a sentence, with the classes of flows that take longer, and with
    the flows that never ended: these have no times, so without them means look too good."""
    by_policy = {run["policy"]: run["completion"] for run in runs}
    if UNCOORDINATED not in by_policy or "auto" not in by_policy:
        return "Measured; uncoordinated and auto, which the goal compares, were not both."
    before, now = by_policy[UNCOORDINATED], by_policy["auto"]
    means = {name: (before[name]["mean_ms"], now[name]["mean_ms"]) for name in now if name in before}
    worse = [f"{name} {new} instead of {old} ms" for name, (old, new) in means.items() if old and new and new > old]
    old, new = means["all"]
    best = ideal["completion"]["all"]["mean_ms"]
    text = f"The mean of all flows is {new} ms under auto, {old} uncoordinated, {best} of fluids"
    open_ = {LABELS.get(name, name): found["all"] for name, found in by_policy.items() if found["all"].get("incomplete")}
    left = [f"{one['incomplete']} of {one['flows']} flows under {name} never ended" for name, one in open_.items()]
    if worse:
        left.append(f"longer: {', '.join(worse)}")
    return f"{text}; {'; '.join(left)}." if left else f"{text}; no class takes longer."


def draw(found: Experiment, path: Path) -> None:
    """Draws mean and p99 of the completion times by size, a bar for each policy and one for fluids."""
    rows = [{"policy": "fluids", **found.record["fluids"]}, *found.record["runs"]]
    classes = list(rows[0]["completion"])
    figure, axes = panels(1, 2, width=11)
    for axis, key, title in zip(axes[0], ("mean_ms", "p99_ms"), ("mean", "p99"), strict=True):
        series = [
            Series(
                LABELS.get(row["policy"], row["policy"]),
                SPARE[number % len(SPARE)],
                [row["completion"][name][key] for name in classes],
                [sure(row["trust"]) if "trust" in row else True] * len(classes),
            )
            for number, row in enumerate(rows)
        ]
        bars(axis, classes, series)
        axis.set(title=f"completion time, {title}", ylabel="ms", yscale="log")
    axes[0][0].legend(frameon=False, fontsize=8)
    save(figure, found.record, path)
