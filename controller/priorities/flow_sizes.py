"""Distributions of flow sizes, from agents' reports or a stated workload, and the moments that the model needs. Pure.

A distribution is a cumulative distribution function that is linear between its points, so sizes are continuous: a jump
(an atom) has to be spread, over one packet for instance, before it comes here. A histogram becomes such a distribution by
spreading each bin evenly over its width.

Sizes are bytes. For a cut x and the size S of a flow, with F the distribution:

    finished(x) = F(x) = P(S <= x)              known size: the flows that fit under the cut
    below(x)    = E[S; S <= x]                  their bytes
    square(x)   = E[S^2; S <= x]
    E[min(S, x)]   = below(x) + x (1 - F(x))    unknown size: what all flows send under the cut
    E[min(S, x)^2] = square(x) + x^2 (1 - F(x))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Partial(NamedTuple):
    """P(S <= x), E[S; S <= x] and E[S^2; S <= x] at each x."""

    finished: Floats
    below: Floats
    square: Floats


@dataclass(frozen=True, slots=True)
class FlowSizes:
    """P(S <= sizes[i]) = cdf[i], linear between: sizes strictly increasing from 0 or more, cdf from 0 to 1.

    Raises:
        ValueError: fewer than two points, numbers out of order, or a CDF that does not run from 0 to 1; names the point.
    """

    sizes: tuple[float, ...]
    cdf: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.cdf) or len(self.sizes) < 2:
            raise ValueError(f"cdf needs two or more points, as many as sizes, not {len(self.sizes)} and {len(self.cdf)}")
        if not np.isfinite([*self.sizes, *self.cdf]).all():
            raise ValueError("sizes and cdf must be finite; remove the point that is not")
        if self.sizes[0] < 0:
            raise ValueError(f"sizes[0] is {self.sizes[0]}; sizes are bytes from 0 up")
        for point in range(1, len(self.sizes)):
            if self.sizes[point] <= self.sizes[point - 1]:
                raise ValueError(f"sizes[{point}] is not above sizes[{point - 1}]; spread a jump over one packet")
            if self.cdf[point] < self.cdf[point - 1]:
                raise ValueError(f"cdf[{point}] is below cdf[{point - 1}]; sort the points")
        if self.cdf[0] != 0 or self.cdf[-1] != 1:
            raise ValueError(f"cdf runs from {self.cdf[0]} to {self.cdf[-1]}; it has to run from 0 to 1")

    @classmethod
    def from_histogram(cls, edges: Sequence[float], counts: Sequence[float]) -> Self:
        """Flows counted in bins between `edges` (one more than `counts`); empty bins at either end are cut off.

        Raises:
            ValueError: no flow, a negative count, or edges that do not fit.
        """
        if len(edges) != len(counts) + 1:
            raise ValueError(f"edges must be one more than the {len(counts)} counts, not {len(edges)}")
        if any(count < 0 for count in counts):
            raise ValueError("counts must not be negative")
        if not any(counts):
            raise ValueError("counts are all zero; without flows there is no distribution")
        full = [at for at, count in enumerate(counts) if count]
        first, last = full[0], full[-1] + 1
        seen = list(accumulate(counts[first:last]))
        total = seen[-1]  # and not `sum`, which from Python 3.12 on rounds otherwise: the last share is exactly 1
        return cls(tuple(map(float, edges[first : last + 1])), (0.0, *(one / total for one in seen)))

    def scaled(self, factor: float) -> FlowSizes:
        """The distribution of factor * S."""
        return FlowSizes(tuple(size * factor for size in self.sizes), self.cdf)

    def mean(self) -> float:
        return float(self.partial(self.sizes[-1]).below)

    def quantile(self, probability: ArrayLike) -> Floats:
        """The least size with at least that probability below it."""
        wanted, sizes, cdf = np.asarray(probability, dtype=float), np.array(self.sizes), np.array(self.cdf)
        end = np.clip(np.searchsorted(cdf, wanted, side="left"), 1, len(cdf) - 1)
        width = np.maximum(cdf[end] - cdf[end - 1], np.finfo(float).tiny)  # nothing is asked for inside a flat stretch
        share = np.clip((wanted - cdf[end - 1]) / width, 0.0, 1.0)
        return np.asarray(sizes[end - 1] + share * (sizes[end] - sizes[end - 1]))

    def partial(self, cut: ArrayLike) -> Partial:
        """The moments of the flows up to each cut."""
        sizes, cdf = np.array(self.sizes), np.array(self.cdf)
        density = np.diff(cdf) / np.diff(sizes)
        x = np.clip(np.asarray(cut, dtype=float), sizes[0], sizes[-1])
        segment = np.clip(np.searchsorted(sizes, x, side="right") - 1, 0, len(density) - 1)

        def up_to(power: int) -> Floats:
            whole = density * np.diff(sizes**power) / power
            before = np.concatenate([[0.0], np.cumsum(whole)[:-1]])
            return np.asarray(before[segment] + density[segment] * (x**power - sizes[segment] ** power) / power)

        finished = cdf[segment] + density[segment] * (x - sizes[segment])
        return Partial(np.asarray(finished), up_to(2), up_to(3))
