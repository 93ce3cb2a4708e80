"""What a run's flows needed: completion times and slowdowns by size, deadlines missed. Pure.

A slowdown is the completion time by that of the same flow alone on the fabric. Flows that never ended have neither; each class
counts them. A deadline is missed by a flow that ended late, was given up, or had not ended when the run did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emulation.measuring.measure import mean, percentile
from simulation.fabric import SpineLeaf
from simulation.flows import Flow

CLASSES = (("to 100 KB", 0, 100_000), ("100 KB to 10 MB", 100_000, 10_000_000), ("above 10 MB", 10_000_000, 1 << 62))
"""The classes of the papers, with their limits in bytes: above the first, up to the second."""
DEADLINE_CLASSES = (
    ("to 100 KB", 0, 100_000), ("100 KB to 1 MB", 100_000, 1_000_000), ("1 to 5 MB", 1_000_000, 5_000_000),
    ("above 5 MB", 5_000_000, 1 << 62),
)  # fmt: skip
"""Of flows with deadlines, likewise."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A flow and how it ended: `finished`, `given_up` or `open`; took_ns from its start to its last byte."""

    flow: Flow
    end: str
    took_ns: int
    slowdown: float
    promotions: int = 0

    @property
    def finished(self) -> bool:
        return self.end == "finished"

    @property
    def in_time(self) -> bool:
        return self.finished and self.took_ns <= self.flow.deadline_ns


def ended(flows: Sequence[Flow], lines: Iterable[Mapping[str, Any]], fabric: SpineLeaf) -> list[Ended]:
    """Each flow with its line of the program; a flow without one is open."""
    by_number = {line["flow"]: line for line in lines if "flow" in line}
    found = []
    for number, flow in enumerate(flows):
        line = by_number.get(number, {"end": "open", "took_ns": 0, "promotions": 0})
        alone_ns = fabric.alone_ns(flow.source, flow.target, flow.size_bytes)
        found.append(Ended(flow, line["end"], line["took_ns"], line["took_ns"] / alone_ns, line["promotions"]))
    return found


def completion(results: Iterable[Ended]) -> dict[str, Any]:
    """Numbers of flows; mean, p50, p95 and p99 of the completion times in ms, mean, p95 and p99 of the slowdowns."""
    results = list(results)
    done = [one for one in results if one.finished]
    times, slow = [one.took_ns / 1e6 for one in done], [one.slowdown for one in done]
    return {
        "flows": len(results),
        "unfinished": len(results) - len(done),
        "mean_ms": _rounded(mean(times)),
        **{f"p{percent}_ms": _rounded(percentile(times, percent)) for percent in (50, 95, 99)},
        "slowdown_mean": _rounded(mean(slow)),
        **{f"slowdown_p{percent}": _rounded(percentile(slow, percent)) for percent in (95, 99)},
    }


def by_class(results: Sequence[Ended]) -> dict[str, dict[str, Any]]:
    """`completion` of all flows and of each class of sizes."""
    found = {"all": completion(results)}
    for name, low, high in CLASSES:
        found[name] = completion(one for one in results if low < one.flow.size_bytes <= high)
    return found


def deadlines(results: Iterable[Ended]) -> dict[str, Any]:
    """The flows with deadlines: how many, the shares that missed and that were given up, and their part of all bytes; and for
    classes of sizes the share missed and the median of completion time over deadline."""
    results = list(results)
    due = [one for one in results if one.flow.flow_type == 1]
    total = sum(one.flow.size_bytes for one in results) or 1
    return {
        **_missed(due),
        "given_up": _rounded(sum(one.end == "given_up" for one in due) / len(due)) if due else None,
        "bytes": _rounded(sum(one.flow.size_bytes for one in due) / total),
        "by_size": {
            name: _missed([one for one in due if low < one.flow.size_bytes <= high]) for name, low, high in DEADLINE_CLASSES
        },
    }


def _missed(due: Sequence[Ended]) -> dict[str, Any]:
    used = [one.took_ns / one.flow.deadline_ns for one in due if one.finished]
    return {
        "flows": len(due),
        "missed": _rounded(sum(not one.in_time for one in due) / len(due)) if due else None,
        "used_p50": _rounded(percentile(used, 50)),
    }


def summary(results: Sequence[Ended]) -> dict[str, Any]:
    """Deadlines of type 1; completion of the flows without deadlines, and of each type."""
    return {
        "deadlines": deadlines(results),
        "without_deadline": by_class([one for one in results if one.flow.flow_type != 1]),
        "by_type": {str(kind): completion(one for one in results if one.flow.flow_type == kind) for kind in (1, 2, 3)},
        "promotions": sum(one.promotions for one in results),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
