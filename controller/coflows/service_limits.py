"""Where the first class of attained service should end, from the sizes of coflows that have completed. Pure.

Aalo's limits are fixed. But a limit amid like sizes makes each coflow wait near its end for all that are fresh, where first in,
first out would be best; and one that is too high lets light ones wait for heavy ones. So the limit is the best of a grid for
the sizes seen, in Kleinrock's model of a multilevel queue (Queueing Systems, volume 2, section 4.7): Poisson arrivals at one
link, preemptive levels, first in, first out in each. A coflow of size x in the level from a to b takes

    T(x) = (W(b) + x) / (1 - rho(a)),   W(b) = lambda E[min(X, b)^2] / (2 (1 - rho(b))),   rho(a) = lambda E[min(X, a)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LOAD = 0.7
"""The limit depends little on the load; where it is low, no order matters."""
LEAST = 10
"""Fewer sizes than this show no distribution."""
GRID = 24
NO_LIMIT = float("inf")


def best_first(sizes: Sequence[float], factor: float) -> float | None:
    """The end of the first class (bytes), each further class `factor` times as long; infinity: one class for all. None: too few
    sizes to tell.
    """
    known = np.sort(np.asarray([size for size in sizes if size > 0], dtype=np.float64))
    if len(known) < LEAST:
        return None
    least, most = float(known[0]), float(known[-1])
    firsts = [*np.geomspace(least, most, GRID)[1:-1].tolist(), NO_LIMIT] if least < most else [NO_LIMIT]
    return min(firsts, key=lambda first: mean_time(known, first, factor))


def mean_time(sizes: NDArray[np.float64], first: float, factor: float) -> float:
    """The mean completion time at the load `LOAD`, in units of the time of a byte, of sizes that come equally often."""
    rate = LOAD / float(sizes.mean())
    total, low, high = 0.0, 0.0, first
    while True:
        here = sizes[(sizes > low) & (sizes <= high)]
        if len(here):
            cut = np.minimum(sizes, high)
            wait = rate * float((cut**2).mean()) / (2 * (1 - rate * float(cut.mean())))
            total += float((wait + here).sum()) / (1 - rate * float(np.minimum(sizes, low).mean()))
        if high >= sizes[-1]:
            return total / len(sizes)
        low, high = high, high * factor
