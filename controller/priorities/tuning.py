"""Thresholds, period after period: reports and loads go in, the thresholds to use come out, as JSON values. Pure."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from controller.priorities.completion_model import Thresholds
from controller.priorities.flow_reports import FlowCounts, Reported
from controller.priorities.thresholds import revise


class Tuning:
    """One fabric's thresholds, period after period."""

    def __init__(self, bands: int, in_force: dict[str, Any] | None = None) -> None:
        """`in_force`: {"beta": [...], "alpha": [...]} to begin with; ignored if they are for another number of bands."""
        self.bands = bands
        self.in_force: Thresholds | None = None
        self._begin_from(in_force)
        self._counts = FlowCounts.none()
        self._reports: list[Reported] = []
        self._busiest: list[float] = []

    def take(self, value: dict[str, Any]) -> None:
        """Takes a line from the coordinator: {"sizes": ...}, {"busiest": ...} or {"in_force": ...} (see `tuner`)."""
        if "sizes" in value:
            rate_bps, period_ns, rows = value["sizes"]
            self._reports.append(Reported(rate_bps, period_ns, bytes.fromhex(rows)))
        if "busiest" in value:
            self._busiest.append(value["busiest"])
        if "in_force" in value:
            self._begin_from(value["in_force"])

    def _begin_from(self, in_force: dict[str, Any] | None) -> None:
        if in_force is not None and len(in_force["beta"]) == self.bands - 1:
            self.in_force = Thresholds(tuple(in_force["beta"]), tuple(in_force["alpha"]))

    def period(self) -> dict[str, Any]:
        """Ends a period; returns what was reported, the thresholds from now on, and their expected gain, as JSON values.

        "changed" says whether the thresholds are new. While there are too few flows the result has no gains, and "thresholds"
        are the earlier ones, or null.
        """
        reports, self._reports = self._reports, []
        fresh, older = FlowCounts.of(reports), self._counts.faded()
        self._counts = fresh if fresh.changed_from(older) else older + fresh
        busiest = fmean(self._busiest) if self._busiest else 0.0
        self._busiest.clear()
        counts = self._counts
        found: dict[str, Any] = {
            "reports": len(reports),
            "flows": [round(float(row.sum())) for row in counts.flows],
            "loads": [round(load, 5) for load in counts.loads()],
            "busiest": round(busiest, 4),
            "sizes": {str(flow_type): counts.histogram(flow_type) for flow_type in (1, 2, 3)},
            "changed": False,
            "thresholds": None,
        }
        traffic = counts.traffic(busiest)
        if traffic is not None:
            revision = revise(traffic, self.in_force, self.bands)
            self.in_force = revision.in_force
            mean_bps = sum(rate * period for rate, period, _ in reports) / max(1, sum(period for _, period, _ in reports))
            found |= {
                "changed": revision.changed,
                "moved": revision.moved,
                "gain": revision.gain,
                "gap": revision.best.gap,
                "mean_fct_ms": _ms(traffic.mean_fct(revision.in_force), mean_bps),
                "mean_fct_before_ms": None if revision.before is None else _ms(revision.before, mean_bps),
            }
        if self.in_force is not None:
            found["thresholds"] = {"beta": list(self.in_force.beta), "alpha": list(self.in_force.alpha)}
        return found


def _ms(link_bytes: float, rate_bps: float) -> float | None:
    return round(link_bytes * 8e3 / rate_bps, 4) if rate_bps else None


def explain(tuned: dict[str, Any]) -> str:
    """The change of a period and its expected gain, in a line for the log."""
    moved = ", ".join(
        f"{name} {'' if old is None else f'{old:,} -> '}{new:,}" for name, (old, new) in tuned["moved"].items()
    )
    if tuned["gain"] is None:
        return f"first thresholds: {moved}"
    before_ms, after_ms = tuned["mean_fct_before_ms"], tuned["mean_fct_ms"]
    times = "" if before_ms is None or after_ms is None else f" ({before_ms:.4g} ms before, {after_ms:.4g} ms after)"
    return f"{moved}; flows without a deadline should take {tuned['gain']:.1%} less{times}"
