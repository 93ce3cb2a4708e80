"""Results of a sweep side by side: rows for a table and a figure, and what Karuna gains. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from simulation.results import CLASSES

PUBLISHED_GAIN, PUBLISHED_MISSED = 0.4778, 0.058
"""Karuna (SIGCOMM 2016, abstract): p95 of the other flows below pFabric's at high load, at most; deadlines missed, below."""


class Row(NamedTuple):
    """One scheme at one load of one workload, over its seeds: the median of each value, None where no flow was."""

    workload: str
    load: float
    scheme: str
    seeds: int
    missed: float | None
    given_up: float | None
    mean_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    small_mean_ms: float | None
    small_p99_ms: float | None
    large_mean_ms: float | None
    slowdown_mean: float | None
    slowdown_p99: float | None
    unfinished: int
    wall_s: float


def rows(results: Iterable[Mapping[str, Any]]) -> list[Row]:
    """A row for each workload, load and scheme, in the order in which they first appear."""
    groups: dict[tuple[str, float, str], list[Mapping[str, Any]]] = {}
    for result in results:
        case = result["case"]
        groups.setdefault((case["workload"], case["load"], case["scheme"]), []).append(result)
    return [_row(key, group) for key, group in groups.items()]


def _row(key: tuple[str, float, str], group: Sequence[Mapping[str, Any]]) -> Row:
    workload, load, scheme = key
    others = [result["without_deadline"] for result in group]
    small, large = CLASSES[0][0], CLASSES[-1][0]

    def over(name: str, kind: str = "all") -> float | None:
        return _median([one[kind][name] for one in others])

    return Row(
        workload,
        load,
        scheme,
        len(group),
        _median([result["deadlines"]["missed"] for result in group]),
        _median([result["deadlines"]["given_up"] for result in group]),
        over("mean_ms"),
        over("p95_ms"),
        over("p99_ms"),
        over("mean_ms", small),
        over("p99_ms", small),
        over("mean_ms", large),
        over("slowdown_mean"),
        over("slowdown_p99"),
        sum(one["all"]["unfinished"] for one in others),
        round(sum(result["wall_s"] for result in group), 1),
    )


class Gain(NamedTuple):
    """By how much Karuna's p95 of the flows without deadline is below a rival's: seeds paired, parts of the rival's.

    `low` and `high` are the limits of the mean's 95 % interval (Student's t); None with one seed. The deadlines missed are
    medians.
    """

    workload: str
    load: float
    rival: str
    by_seed: tuple[float, ...]
    low: float | None
    high: float | None
    missed: float | None
    rival_missed: float | None
    unfinished: tuple[int, int] = (0, 0)
    """Flows of Karuna and of the rival that never ended: no percentile has them."""

    @property
    def median(self) -> float:
        return median(self.by_seed)

    def __str__(self) -> str:
        side = "below" if self.median >= 0 else "above"
        words = f"{self.workload} at load {self.load:g}: Karuna's p95 of flows without deadline is {abs(self.median):.1%}"
        words += f" {side} {self.rival}'s"
        if self.low is not None and self.high is not None:
            words += f" (median of {len(self.by_seed)} seeds; mean's 95 % interval {-self.high:+.1%} to {-self.low:+.1%})"
        if self.missed is not None and self.rival_missed is not None:
            words += f"; deadlines missed {self.missed:.1%}, {self.rival} {self.rival_missed:.1%}"
        if any(self.unfinished):
            ours, theirs = self.unfinished
            words += f"; not counted, for they never ended: {ours} of Karuna's, {theirs} of {self.rival}'s"
        return words


def gains(results: Iterable[Mapping[str, Any]]) -> list[Gain]:
    """Karuna against pFabric, without and with EDF, over the seeds that both have, for each workload and load."""
    groups: dict[tuple[str, float, str], dict[int, Mapping[str, Any]]] = {}
    for result in results:
        case = result["case"]
        groups.setdefault((case["workload"], case["load"], case["scheme"]), {})[case["seed"]] = result
    found = []
    for (workload, load, scheme), own in groups.items():
        for rival in ("pfabric", "pfabric_edf"):
            other = groups.get((workload, load, rival), {})
            pairs = [(own[seed], other[seed]) for seed in own if seed in other]
            parts = tuple(1 - ours / theirs for ours, theirs in (map(_p95, pair) for pair in pairs) if ours and theirs)
            if scheme == "karuna" and parts:
                missed, theirs_missed = (
                    _median(one["deadlines"]["missed"] for one in side) for side in zip(*pairs, strict=True)
                )
                unfinished = [
                    sum(one["without_deadline"]["all"]["unfinished"] for one in side) for side in zip(*pairs, strict=True)
                ]
                limits = interval(parts)
                found.append(
                    Gain(workload, load, rival, parts, *limits, missed, theirs_missed, (unfinished[0], unfinished[1]))
                )
    return found


def interval(values: Sequence[float], sure: float = 0.95) -> tuple[float | None, float | None]:
    """The limits of the mean's confidence interval by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None, None
    from scipy.stats import t

    half = float(t.ppf((1 + sure) / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return mean(values) - half, mean(values) + half


def _p95(result: Mapping[str, Any]) -> float | None:
    value: float | None = result["without_deadline"]["all"]["p95_ms"]
    return value


def _median(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return round(median(there), 4) if there else None
