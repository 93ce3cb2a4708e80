"""Splitting thresholds beta and demotion thresholds alpha for the tagger, from reported flow sizes; with a certificate. Pure.

`optimise` finds thresholds of least mean FCT in the model of `controller.priorities.completion_model` (M/G/1 with preemptive
priorities), and a lower bound that no thresholds can pass (`controller.priorities.threshold_solver`). `revise` does so each
period: it starts from the thresholds in force, and changes them only for a gain worth having, so that noise in the reports
doesn't move flows between bands.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.priorities import threshold_solver
from controller.priorities.completion_model import Thresholds, Traffic, equal_split, whole

MIN_GAIN = 0.02
"""New thresholds must save at least this share of the mean FCT to be put in force."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Thresholds, their mean FCT and a lower bound for all thresholds, both in bytes of the link's time (times 8/rate)."""

    thresholds: Thresholds
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How much the mean FCT could be above the optimum, as a share of the bound; 0 is optimal."""
        return self.value / self.bound - 1


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of a period, for the log and for the distribution of thresholds.

    `in_force` are the thresholds to use now, `best` is the optimum of this period. `before` is the mean FCT of the earlier
    thresholds under this period's traffic (None without any), `gain` the share of it that `best` saves. `moved` are the new
    thresholds that differ: {"beta[0]": (old, new), ...}, all of them at first, none while the old ones stay.
    """

    in_force: Thresholds
    best: Solution
    before: float | None
    gain: float | None
    moved: dict[str, tuple[int | None, int]]

    @property
    def changed(self) -> bool:
        return bool(self.moved)


def optimise(traffic: Traffic, bands: int, start: Thresholds | None = None) -> Solution:
    """The best thresholds for so many bands, never worse than the equal split nor than `start`.

    A type without load gets the other's thresholds, so that its first flows are not all in one band.

    Raises:
        ValueError: fewer than one band, or a start with another number of them.
    """
    if bands < 1:
        raise ValueError(f"bands is {bands}; a link has one or more")
    if start is not None and start.bands != bands:
        raise ValueError(f"start is for {start.bands} bands, not {bands}; leave it out after a change of bands")
    found = threshold_solver.solve(traffic, bands)
    beta = found.beta if traffic.flows_2() else found.alpha
    alpha = found.alpha if traffic.flows_3() else found.beta
    candidates = [whole(beta, alpha), equal_split(traffic, bands), *([] if start is None else [start])]
    value, _, best = min((traffic.mean_fct(candidate), order, candidate) for order, candidate in enumerate(candidates))
    return Solution(best, value, min(found.bound, value))


def revise(traffic: Traffic, in_force: Thresholds | None, bands: int, min_gain: float = MIN_GAIN) -> Revision:
    """The thresholds for the next period: new ones if there were none, if `bands` has changed, or if they gain enough."""
    same = in_force is not None and in_force.bands == bands
    best = optimise(traffic, bands, in_force if same else None)
    before = None if in_force is None else traffic.mean_fct(in_force)
    gain = None if before is None else 1 - best.value / before
    if in_force is not None and same and gain is not None and gain < min_gain:
        return Revision(in_force, best, before, gain, {})
    return Revision(best.thresholds, best, before, gain, _moved(in_force if same else None, best.thresholds))


def _moved(old: Thresholds | None, new: Thresholds) -> dict[str, tuple[int | None, int]]:
    moved: dict[str, tuple[int | None, int]] = {}
    for name in ("beta", "alpha"):
        for at, cut in enumerate(getattr(new, name)):
            was = getattr(old, name)[at] if old is not None else None
            if was != cut:
                moved[f"{name}[{at}]"] = (was, cut)
    return moved
