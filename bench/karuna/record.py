"""Runs the cases of a Karuna experiment one after another. An edge: emulation."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from agents.priorities.tagger import TaggerCounters
from bench.record import Experiment as Experiment  # with what a figure's module returns
from bench.record import Tell as Tell
from bench.record import record_of
from controller.priorities.completion_model import Traffic
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise
from emulation import cdfs
from emulation.measuring.confidence import together
from emulation.stack import schemes
from emulation.stack.schemes import Scheme, SchemeStar
from emulation.stack.star import BOTTLENECK, RATE_BPS
from emulation.traffic import flow_run
from emulation.traffic.flow_run import FlowResult, FlowRun
from emulation.traffic.flow_schedule import Mixture, Schedule, kept_bytes, poisson, scaled
from emulation.traffic.flow_stats import summary

PUBLISHED_BPS = 1_000_000_000
SCALE = RATE_BPS / PUBLISHED_BPS
"""Of the published rate and of the published flow sizes, unless another rate is asked for: completion times stay the same."""
EDGES = (100_000, 10_000_000)
"""The published bins, in bytes: to 100 KB, to 10 MB, above."""
MOST_BYTES = 30_000_000
"""Without flows above this size, unlike published: runs are too short for them. Nearly all bytes of data mining are in such."""
DRAIN_S = 3.0
WARM_UP_S = 3.0
"""Arrivals that are not measured: the tuner's first thresholds are of the reports of the first two seconds."""
OVERHEAD_S = 3.5
"""What a case takes beside its arrivals: to build the fabric, to start the programs, to finish the flows."""


class Options(NamedTuple):
    """The options of one run of an experiment."""

    quick: bool = False
    seed: int = 1
    rate_bps: int = RATE_BPS

    @property
    def scale(self) -> float:
        """The links' rate over the published one: flow sizes are scaled by it, so that times are as published."""
        return self.rate_bps / PUBLISHED_BPS

    def sized(self, size_bytes: int) -> int:
        """A size that is meant for links of `RATE_BPS`, for these links."""
        return size_bytes * self.rate_bps // RATE_BPS

    @property
    def rate(self) -> str:
        """The links' rate as text."""
        return f"{self.rate_bps / 1e6:g} Mb/s" if self.rate_bps < 10**9 else f"{self.rate_bps / 1e9:g} Gb/s"


class Case(NamedTuple):
    """One scheme under one list of flows; `at` is its place in the figure."""

    at: dict[str, Any]
    scheme: Scheme
    schedule: Schedule

    @property
    def label(self) -> str:
        return ", ".join((self.scheme.name, *(f"{name} {value}" for name, value in self.at.items() if name != "scheme")))


def experiment(
    title: str,
    published: dict[str, Any],
    options: Options,
    runs: Sequence[dict[str, Any]],
    environment: dict[str, Any],
    scale: str,
) -> dict[str, Any]:
    """A record without its figures: title, published values, scale, confidence, environment."""
    confidence = together({_name(number, run): run["trust"] for number, run in enumerate(runs)})
    return record_of(
        title,
        published,
        runs,
        scale=scale,
        seed=options.seed,
        quick=options.quick,
        confidence=confidence,
        environment=environment,
    )


def _name(number: int, run: dict[str, Any]) -> str:
    """A run's name in a sentence: its scheme, and its number among the runs."""
    scheme = run.get("scheme")
    return f"run {number + 1} ({scheme['name'] if isinstance(scheme, dict) else run.get('case', '')})"


def measure(
    title: str,
    published: dict[str, Any],
    cases: Sequence[Case],
    options: Options,
    tell: Tell,
    *,
    scale: str | None = None,
    edges: Sequence[int] | None = None,
    bucket_ns: int = 0,
    more: Callable[[Sequence[FlowResult]], dict[str, Any]] = lambda found: {},
) -> Experiment:
    """Runs the cases one after another, each on a star of its own with links of the options' rate.

    Args:
        scale: the record's remark on rate and sizes; None: flow sizes are the published ones times `Options.scale`.
        edges: of the bins of flow sizes, in bytes; None: the published ones at that scale.
        more: adds to a run's record, from the results of the flows that are measured.
    """
    if scale is None:
        scale = remark(options)
    if edges is None:
        edges = [round(edge * options.scale) for edge in EDGES]
    lengths = [case.schedule.length_ns / 1e9 + OVERHEAD_S for case in cases]
    runs, raw, environment = list[dict[str, Any]](), list[dict[str, Any]](), dict[str, Any]()
    for number, case in enumerate(cases):
        done = sum(lengths[:number])

        def progress(seconds: float, label: str = case.label, done: float = done) -> None:
            tell(label, (done + seconds) / sum(lengths))

        progress(0)
        scheme = case.scheme.at_rate(options.rate_bps)
        with schemes.on_star(scheme) as star:
            found, tagged = _run_case(case.schedule, scheme, star, bucket_ns, progress)
            tuned = {} if star.tuning is None else tuning_of(star.tuning.told)
            way = None if star.control is None else star.control.way.value
            environment = environment or {**star.emulated.environment(), "mcp_by": way}
        measured = [result for result in found.results if result.flow.start_ns >= case.schedule.warm_up_ns]
        runs.append(
            {
                **case.at,
                "scheme": scheme.to_dict(),
                "flows": len(measured),
                "offered_mbps": round(case.schedule.size_bytes * 8e3 / case.schedule.length_ns, 2),
                **summary(measured, edges),
                **more(measured),
                **tuned,
                **tagged,
                "port": [
                    {"sent_packets": queue.sent_packets, "drops": queue.drops, "marks": queue.marks} for queue in found.queues
                ],
                "trust": found.trust(),
            }
        )
        raw += [{"run": number, **result.row()} for result in measured]
    return Experiment(experiment(title, published, options, runs, environment, scale), raw)


def _run_case(
    schedule: Schedule, scheme: Scheme, star: SchemeStar, bucket_ns: int, tell: Callable[[float], None]
) -> tuple[FlowRun, dict[str, int]]:
    """One list of flows on a star under the scheme; returns also what the taggers counted since the warm-up."""

    def progress(seconds: float) -> None:
        tell(seconds)
        if star.tuning is not None:
            star.tuning.advance(time.monotonic_ns())

    warm = list[TaggerCounters]()
    found = flow_run.run(
        star.emulated,
        schedule,
        port=BOTTLENECK,
        drain_s=DRAIN_S,
        given_up=star.given_up,
        bucket_ns=bucket_ns,
        warmed_up=lambda: warm.extend(tagger.counters() for tagger in star.taggers),
        progress=progress,
        **scheme.choices(schedule.flows),
    )
    counters = list(zip([tagger.counters() for tagger in star.taggers], warm, strict=True))
    return found, {
        "timeouts": sum(after.timeouts - before.timeouts for after, before in counters),
        "promotions": sum(after.promotions - before.promotions for after, before in counters),
    }


def sizes_of(workload: str, options: Options) -> FlowSizes:
    """A published workload at the options' scale, without flows above `MOST_BYTES`."""
    return scaled(cdfs.load(workload), options.scale, MOST_BYTES * options.scale)


def remark(options: Options, workloads: Iterable[str] = ()) -> str:
    """What a record says of its rate and sizes; how many bytes of `workloads` are left, whose sizes are `sizes_of`."""
    share = "as published" if options.scale == 1 else f"{options.scale:g} of the published; times as at 1 Gb/s"
    text, cap = f"links ({options.rate}) and flow sizes {share}", MOST_BYTES * options.scale
    left = {name: kept_bytes(cdfs.load(name), options.scale, cap) for name in dict.fromkeys(workloads)}
    if all(part == 1 for part in left.values()):
        return text
    parts = ", ".join(f"{part:.2g} of the bytes of {name.replace('_', ' ')}" for name, part in left.items())
    return f"{text}, without flows above {cap / 1e6:g} MB ({parts} are left)"


def tuning_of(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A run's thresholds in its record: each period's loads and flows, and the thresholds whenever they changed."""
    periods = [
        {
            **{name: period[name] for name in ("version", "flows", "loads", "busiest")},
            **({name: period[name] for name in ("thresholds", "gain", "gap")} if period["changed"] else {}),
        }
        for period in told
    ]
    return {"tuned": periods} if periods else {}


def arrivals(
    sizes: FlowSizes, load: float, seconds: float, mixture: Mixture, options: Options, warm_up_s: float = WARM_UP_S
) -> Schedule:
    """Poisson arrivals at the star's one receiver, by the warm-up longer than the seconds that are measured."""
    flows = poisson(
        sizes,
        load=load,
        rate_bps=options.rate_bps,
        duration_ns=round((warm_up_s + seconds) * 1e9),
        pairs=schemes.PAIRS,
        mixture=mixture,
        seed=options.seed,
    )
    return dataclasses.replace(flows, warm_up_ns=round(warm_up_s * 1e9))


def cuts_for(sizes: FlowSizes, load: float, bands: int) -> tuple[int, ...]:
    """The sizes at which shortest-job-first on so many fixed priorities is best divided, which such applications would know."""
    return optimise(Traffic(0.0, load, 0.0, sizes, sizes), bands).thresholds.beta
