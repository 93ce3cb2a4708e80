"""Statistics of the flows of a run: completion times by size, deadlines met. Pure.

A flow that never completed has no completion time. Each bin counts such flows, since its mean and its percentiles are of the
other flows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from emulation.measuring.measure import mean, percentile
from emulation.traffic.flow_run import GIVEN_UP, FlowResult

PERCENTILES = (5, 25, 50, 75, 95, 99)


def completion(results: Iterable[FlowResult]) -> dict[str, Any]:
    """How many flows there are and how many did not complete; mean, p50, p95 and p99 of the completion times in ms, or None."""
    results = list(results)
    times = [result.fct_ns / 1e6 for result in results if result.fct_ns is not None]
    return {
        "flows": len(results),
        "incomplete": len(results) - len(times),
        "mean_ms": _rounded(mean(times)),
        **{f"p{percent}_ms": _rounded(percentile(times, percent)) for percent in (50, 95, 99)},
    }


def by_size(results: Iterable[FlowResult], edges: Sequence[int]) -> dict[str, dict[str, Any]]:
    """`completion` of all flows, and of those between each two of the edges, bytes; a flow of an edge's size belongs to the bin
    below."""
    results = list(results)
    found = {"all": completion(results)}
    for low, high in zip((0, *edges), (*edges, None), strict=True):
        inside = [one for one in results if one.flow.size_bytes > low and (high is None or one.flow.size_bytes <= high)]
        found[f"above {_size(low)}" if high is None else f"{_size(low)} to {_size(high)}"] = completion(inside)
    return found


def deadlines(results: Iterable[FlowResult]) -> dict[str, Any]:
    """Of the flows with deadlines: the shares that met it, missed it and were terminated; and completion over deadline.

    A terminated flow has missed its deadline, as in the paper; so has one that had not completed when the run ended.
    """
    due = [result for result in results if result.flow.deadline_ms is not None]
    kept = [result for result in due if result.end not in GIVEN_UP]
    used = [one.fct_ns / 1e6 / one.flow.deadline_ms for one in kept if one.fct_ns is not None and one.flow.deadline_ms]
    met = sum(result.met for result in due)
    return {
        "flows": len(due),
        "met": _share(met, len(due)),
        "missed": _share(len(due) - met, len(due)),
        "terminated": _share(sum(result.end in GIVEN_UP for result in due), len(due)),
        "completion_over_deadline": {f"p{percent}": _rounded(percentile(used, percent)) for percent in PERCENTILES},
    }


def summary(results: Sequence[FlowResult], edges: Sequence[int]) -> dict[str, Any]:
    """Deadlines of type 1; completion times by size of types 2 and 3 together, and of each type in all."""
    others = [result for result in results if result.flow.flow_type != 1]
    return {
        "deadlines": deadlines(results),
        "completion": by_size(others, edges),
        "by_type": {str(kind): completion(one for one in results if one.flow.flow_type == kind) for kind in (1, 2, 3)},
        "retransmits": sum(result.retransmits for result in results),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _size(size_bytes: int) -> str:
    for unit, name in ((1_000_000, "MB"), (1_000, "KB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return str(size_bytes)
