"""Runs the cases of a Karuna experiment one after another, and writes the record and its raw rows. An edge: emulation,
files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from controller.priorities.completion_model import Thresholds, Traffic
from controller.priorities.flow_sizes import FlowSizes
from controller.priorities.thresholds import optimise
from emulation import cdfs
from emulation.stack import schemes
from emulation.stack.schemes import Scheme
from emulation.stack.star import BOTTLENECK, RATE_BPS
from emulation.traffic import flow_run
from emulation.traffic.flow_run import FlowRun
from emulation.traffic.flow_schedule import Mixture, Schedule, poisson, scaled
from emulation.traffic.flow_stats import summary

SCALE = 0.1
"""Of the published 1 Gb/s and of the published flow sizes: completion times stay the same."""
EDGES = (10_000, 1_000_000)
"""The published bins (to 100 KB, to 10 MB, above) at that scale."""
DRAIN_S = 3.0
OVERHEAD_S = 3.5
"""What a case takes beside its arrivals: to build the fabric, to start the programs, to finish the flows."""

Tell = Callable[[str, float], None]
"""A progress callback: gets the name of the current step, and the share of the experiment that is done."""


class Options(NamedTuple):
    """The options of one run of an experiment."""

    quick: bool = False
    seed: int = 1


class Case(NamedTuple):
    """One scheme under one list of flows; `at` is its place in the figure."""

    at: dict[str, Any]
    scheme: Scheme
    schedule: Schedule

    @property
    def label(self) -> str:
        return ", ".join((self.scheme.name, *(f"{name} {value}" for name, value in self.at.items() if name != "scheme")))


class Experiment(NamedTuple):
    """`record` is what --json writes; `raw` are the rows beside it, one JSON object a line."""

    record: dict[str, Any]
    raw: list[dict[str, Any]]


def experiment(
    title: str,
    published: dict[str, Any],
    options: Options,
    runs: Sequence[dict[str, Any]],
    environment: dict[str, Any],
    scale: str,
) -> dict[str, Any]:
    """A record without its figures: title, published values, scale, validity, environment."""
    return {
        "title": title,
        "published": published,
        "scale": scale,
        "seed": options.seed,
        "quick": options.quick,
        "valid": all(run["trust"]["valid"] for run in runs),
        "runs": list(runs),
        "environment": {**environment, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
    }


def measure(
    title: str,
    published: dict[str, Any],
    cases: Sequence[Case],
    options: Options,
    tell: Tell,
    *,
    scale: str = "links and flow sizes a tenth of the published; times as at 1 Gb/s",
    edges: Sequence[int] = EDGES,
    bucket_ns: int = 0,
    more: Callable[[FlowRun], dict[str, Any]] = lambda found: {},
) -> Experiment:
    """Runs the cases one after another, each on a star of its own. `more` adds to a run's record."""
    lengths = [case.schedule.length_ns / 1e9 + OVERHEAD_S for case in cases]
    runs, raw, environment = list[dict[str, Any]](), list[dict[str, Any]](), dict[str, Any]()
    for number, case in enumerate(cases):
        done = sum(lengths[:number])

        def progress(seconds: float, label: str = case.label, done: float = done) -> None:
            tell(label, (done + seconds) / sum(lengths))

        progress(0)
        with schemes.on_star(case.scheme) as (emulated, given_up, taggers):
            choices = case.scheme.choices(case.schedule.flows)
            found = flow_run.run(
                emulated,
                case.schedule,
                port=BOTTLENECK,
                drain_s=DRAIN_S,
                given_up=given_up,
                bucket_ns=bucket_ns,
                progress=progress,
                **choices,
            )
            environment = environment or emulated.environment()
            counters = [tagger.counters() for tagger in taggers]
        runs.append(
            {
                **case.at,
                "scheme": case.scheme.to_dict(),
                "flows": len(case.schedule.flows),
                "offered_mbps": round(case.schedule.size_bytes * 8e3 / case.schedule.length_ns, 2),
                **summary(found.results, edges),
                **more(found),
                "timeouts": sum(counter.timeouts for counter in counters),
                "promotions": sum(counter.promotions for counter in counters),
                "port": [
                    {"sent_packets": queue.sent_packets, "drops": queue.drops, "marks": queue.marks} for queue in found.queues
                ],
                "trust": found.trust(),
            }
        )
        raw += [{"run": number, **result.row()} for result in found.results]
    return Experiment(experiment(title, published, options, runs, environment, scale), raw)


def sizes_of(workload: str) -> FlowSizes:
    """A published workload at this scale, without flows above 3 MB (30 MB as published): runs are too short for them."""
    return scaled(cdfs.load(workload), SCALE, 3_000_000)


def arrivals(sizes: FlowSizes, load: float, seconds: float, mixture: Mixture, seed: int) -> Schedule:
    """Poisson arrivals at the star's one receiver."""
    return poisson(
        sizes,
        load=load,
        rate_bps=RATE_BPS,
        duration_ns=round(seconds * 1e9),
        pairs=schemes.PAIRS,
        mixture=mixture,
        seed=seed,
    )


def thresholds_for(sizes: FlowSizes, load: float, shares: Sequence[float], bands: int) -> Thresholds:
    """The controller's own thresholds for such traffic."""
    load_1, load_2, load_3 = (load * share for share in shares)
    return optimise(Traffic(load_1, load_2, load_3, sizes, sizes), bands).thresholds


def cuts_for(sizes: FlowSizes, load: float, bands: int) -> tuple[int, ...]:
    """The sizes at which shortest-job-first with so many bands is best divided."""
    return thresholds_for(sizes, load, (0.0, 1.0, 0.0), bands).beta


def write(found: Experiment, path: Path) -> list[Path]:
    """Writes the record, and its raw rows beside it; the paths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = path.with_suffix(".raw.jsonl")
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in found.raw))
    path.write_text(json.dumps({**found.record, "raw": rows.name}, indent=1) + "\n")
    return [path, rows]
