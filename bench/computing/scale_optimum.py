"""What a linear programme could grant: the most that all pairs together can send over the links of a fabric. Pure.

Pair p is granted x_p bit/s. Maximise the sum of all x_p, where x_p is at most what the pair wants, what crosses a link adds up
to at most its capacity, and what a node sends to at most its rate. The programme knows neither slots nor fairness, so it is a
bound from above for any schedule.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from bench.computing.scale_network import Pairs
from controller.policies.base import Network
from protocol.units import SECOND_NS


def crossings(network: Network, pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(link, pair) of every link on every pair's path, a node being a link of its own; and the capacities of the links."""
    rows: dict[Hashable, int] = {}
    capacities: list[int] = []
    at: list[int] = []
    of: list[int] = []

    def cross(name: Hashable, capacity_bps: int, pair: int) -> None:
        row = rows.setdefault(name, len(rows))
        if row == len(capacities):
            capacities.append(capacity_bps)
        at.append(row)
        of.append(pair)

    for pair, (node, destination) in enumerate(zip(pairs.nodes.tolist(), pairs.destinations.tolist(), strict=True)):
        cross(("node", node), network.node_rate_bps(node), pair)
        for link in network.path(node, destination):
            cross(("link", link), network.capacity_bps(link), pair)
    return np.array(at), np.array(of), np.array(capacities, dtype=np.float64)


def admissible_bps(network: Network, pairs: Pairs, load: float) -> float:
    """What each pair may want, all the same, for the fullest link to be loaded to this part."""
    at, _, capacities = crossings(network, pairs)
    return float(load * np.min(capacities / np.bincount(at, minlength=len(capacities))))


class Alone:
    """What each link could pass on if it were the only one, and sent whenever something waits for it. No schedule passes on
    more there, for none sends what has not come yet.

    Args:
        part: of every capacity that may be granted.
        waiting_bytes: what waits at the beginning, of each pair.
    """

    def __init__(self, network: Network, pairs: Pairs, part: float, waiting_bytes: NDArray[np.int64]) -> None:
        from scipy.sparse import csr_array

        at, of, capacities = crossings(network, pairs)
        self._crosses = csr_array((np.ones(len(at)), (at, of)), shape=(len(capacities), len(pairs)))
        self._capacities = capacities * part
        self._waiting = self._crosses @ (waiting_bytes * 8.0)
        self._passed = np.zeros(len(capacities))
        self._came = np.zeros(len(pairs), dtype=np.int64)

    def take(self, came_bytes: NDArray[np.int64], passing_ns: int) -> None:
        """Takes all that came for each pair so far, and lets time pass."""
        self._waiting += self._crosses @ ((came_bytes - self._came) * 8.0)
        passes = np.minimum(self._waiting, self._capacities * (passing_ns / SECOND_NS))
        self._waiting -= passes
        self._passed += passes
        self._came = came_bytes.copy()

    def passed_bps(self, measured_ns: int) -> NDArray[np.float64]:
        """What each link passed on, in the order of `crossings`."""
        passed: NDArray[np.float64] = self._passed * (SECOND_NS / measured_ns)
        return passed


def optimum_bps(
    network: Network,
    pairs: Pairs,
    wanted_bps: NDArray[np.float64] | None = None,
    part: float = 1.0,
    most_bps: NDArray[np.float64] | None = None,
) -> float:
    """The most that all pairs can be granted together.

    Args:
        wanted_bps: of each pair; None: each wants all that it can get.
        part: of every capacity that may be granted.
        most_bps: what each link passes on at most, in the order of `crossings`; None: as its capacity allows.
    """
    from scipy.optimize import linprog  # takes a second to load
    from scipy.sparse import csr_array

    at, of, capacities = crossings(network, pairs)
    matrix = csr_array((np.ones(len(at)), (at, of)), shape=(len(capacities), len(pairs)))
    unit = float(capacities.max())
    most = np.full(len(pairs), np.inf) if wanted_bps is None else wanted_bps / unit
    bounds = np.column_stack((np.zeros(len(pairs)), most))
    links = (capacities * part if most_bps is None else most_bps) / unit
    result = linprog(-np.ones(len(pairs)), A_ub=matrix, b_ub=links, bounds=bounds, method="highs")
    if result.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {result.message}")
    return float(-result.fun * unit)
