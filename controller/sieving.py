"""The least mean FCT over all thresholds: a shortest path, with a bound that holds for every threshold there is. Pure.

T of `controller.bands` is a sum of K steps c(s, t) between states s = (beta_{j-1}, alpha_{j-1}) and t = (beta_j, alpha_j), t not
below s in either coordinate, from (0, 0) to (infinity, infinity); with q = 1/(1 - sigma), u = V q / 2,

    c(s, t) = q(s) [ (N(t) - N(s)) u(t) + B(t) - B(s) ]

Over a grid of cuts that is a shortest path of K steps, solved exactly by dynamic programming for all K at once. c is a scalar
product of what depends on s and what depends on t, so that all steps are one matrix product.

*Bound.* Let x_1..x_{K-1} be any thresholds. Round every coordinate to an end of its grid cell at random, up with the probability
that keeps the mean load (for each cell one uniform number, so that the order is kept). The result X is a path on the grid. If
E c(X_{j-1}, X_j) <= c(x_{j-1}, x_j) + eta for an eta that depends on the cells, then T(x) >= E sum (c - eta)(X_{j-1}, X_j), which is
no less than the shortest path under the lengths c - max(eta over the cells at the two grid points). That path is the bound.

eta is of second order in the width of the cells. With f+ and f- the most that f's chord over a cell (against the load) is
above and below f, f^ its greatest value in the cell and df its range, N, B, V and q rise in both coordinates, so that products
of them have covariances of at most a quarter of their ranges' product, and of the right sign for q N and q B (Harris):

    q+ = q^ (dq)^2 / (4 q_low q_high)                                                 Kantorovich, as E sigma is kept
    u+ = (V+ q^ + V^ q+) / 2 + dV dq / 8
    eta = q+ D u^ + q^ (N+(t) + N-(s)) u^ + q^ D u+ + (q^ dN du + D dq du + u^ dq dN(t) + (dN(t) + dN(s)) dq du) / 4
        + q+ D' + q^ (B+(t) + B-(s)) + dq dB / 4          D = N^(t) - N_low(s), D' = B^(t) - B_low(s)

q of s, u, du, dN without argument of t. The ends (0, 0) and infinity are not rounded: there eta's terms are 0. f+ and f- come
from a fine grid on which slopes df/dsigma are monotone in each interval, where a chord misses by at most a quarter of the
slope's change times the interval's load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.bands import Curve, Traffic, mean_fct
from controller.flow_sizes import Floats, FlowSizes

FINE = 3_000
"""Cuts of the fine grid, about; thresholds are chosen among them."""
STATES = 4_096
"""States of the coarse grid, about: 64 x 64 for two types, and for one type alone as many as a quarter."""


@dataclass(frozen=True, slots=True)
class Sieve:
    """Optimal cuts for one number of bands: bytes, mean FCT and its lower bound in bytes of the link's time."""

    beta: Floats
    alpha: Floats
    value: float
    bound: float


class _Axis(NamedTuple):
    """One type's cuts: the fine grid, the coarse grid within it, and by coarse cell how far chords are above and below."""

    fine: Curve
    at: NDArray[np.intp]
    above: tuple[Floats, Floats, Floats]
    below: tuple[Floats, Floats, Floats]


def solve(traffic: Traffic, bands: int) -> list[Sieve]:
    """The best cuts for 1, 2, .. `bands` bands. The cuts of a type without load are 0."""
    both = traffic.flows_2() > 0 and traffic.flows_3() > 0
    nodes = round(STATES**0.5) if both else STATES // 4
    split = _axis(traffic, traffic.split, traffic.sizes_2 if traffic.flows_2() else None, nodes)
    demote = _axis(traffic, traffic.demote, traffic.sizes_3 if traffic.flows_3() else None, nodes)
    lengths = _Lengths(traffic.load_1, split, demote)
    found = []
    for layers, bound in lengths.shortest(bands):
        beta, alpha = split.at[layers // len(demote.at)], demote.at[layers % len(demote.at)]
        value = _descend(traffic.load_1, split.fine, demote.fine, beta, alpha)
        found.append(Sieve(split.fine.cut[beta], demote.fine.cut[alpha], value, min(bound, value)))
    return found


# -- grids ----------------------------------------------------------------------------------------------------------------


def _axis(traffic: Traffic, curve: Callable[[Floats], Curve], sizes: FlowSizes | None, nodes: int) -> _Axis:
    if sizes is None:
        nothing = np.zeros(1)
        return _Axis(curve(nothing), np.zeros(1, dtype=np.intp), (nothing,) * 3, (nothing,) * 3)
    cut = _fine_cuts(sizes)
    fine = curve(cut)
    at = _coarse(traffic, fine, nodes)
    error = _fine_errors(traffic, fine, sizes)
    above, below = zip(*(_chords(fine.load, f, at, e) for f, e in zip(fine[1:4], error, strict=True)), strict=True)
    return _Axis(fine, at, above, below)


def _fine_cuts(sizes: FlowSizes) -> Floats:
    """All points of the distribution, and between them cuts even in size's logarithm, in flows, in bytes and near the end."""
    points = np.array(sizes.sizes)
    low, high = max(points[0], points[1] * 1e-3), points[-1]
    even = np.geomspace(low, high, FINE // 2)
    flows = sizes.quantile(np.linspace(0, 1, FINE // 4))
    below = sizes.partial(even).below
    carried = np.interp(np.linspace(0, below[-1], FINE // 4), below, even)
    end = high - np.geomspace(high - points[-2], (high - points[-2]) * 1e-6, FINE // 16)
    cut = np.unique(np.concatenate([[0.0], points, even, flows, carried, end]))
    apart = np.concatenate([[True], np.diff(cut) > cut[1:] * 1e-9]) | np.isin(cut, points)
    return np.asarray(cut[apart])


def _coarse(traffic: Traffic, fine: Curve, nodes: int) -> NDArray[np.intp]:
    """A choice of fine cuts that are even in flows, in bytes, in -log(1 - sigma) and in log V together."""
    left = 1 - traffic.load_1 - fine.load
    square = fine.square + fine.square[-1] * 1e-6
    measure = sum(
        weight * (f - f[0]) / (f[-1] - f[0])
        for weight, f in ((1.0, fine.finished), (1.0, fine.carried), (1.0, -np.log(left)), (1.0, np.log(square)))
    )
    wanted = np.linspace(0, float(np.asarray(measure)[-1]), nodes)
    return np.unique(np.searchsorted(np.asarray(measure), wanted * (1 - 1e-12)))


def _fine_errors(traffic: Traffic, fine: Curve, sizes: FlowSizes) -> tuple[Floats, Floats, Floats]:
    """How far N, B and V can be from their chords inside each fine interval."""
    cut, width = fine.cut, np.diff(fine.load)
    known = np.array_equal(fine.load, traffic.split(cut).load) and traffic.flows_2() > 0
    both = traffic.flows_2() + traffic.flows_3()
    with np.errstate(divide="ignore", invalid="ignore"):
        if known:  # d load = lambda x dF
            slopes = [(1 / cut[:-1] / both, 1 / cut[1:] / both), (np.zeros(len(width)),) * 2, (cut[:-1], cut[1:])]
        else:  # d load = lambda (1 - F) dx
            finished = sizes.partial(cut).finished
            density = np.diff(finished) / np.diff(cut)
            hazard = density / (1 - finished[:-1]), density / np.maximum(1 - finished[1:], 0)
            slopes = [
                (hazard[0] / both, hazard[1] / both),
                (hazard[0] * cut[:-1] / both, hazard[1] * cut[1:] / both),
                (2 * cut[:-1], 2 * cut[1:]),
            ]
        errors = [np.abs(end - begin) * width / 4 for begin, end in slopes]
    most = [np.diff(f) for f in fine[1:4]]
    n, b, v = (np.where(np.isfinite(e), np.minimum(e, m), m) for e, m in zip(errors, most, strict=True))
    return n, b, v


def _chords(load: Floats, f: Floats, at: NDArray[np.intp], error: Floats) -> tuple[Floats, Floats]:
    """By coarse cell: the most that f's chord against the load is above f, and below it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(f[at]) / np.diff(load[at])
    slope = np.where(np.isfinite(slope), slope, 0.0)
    cell = np.clip(np.searchsorted(at, np.arange(len(f)), side="right") - 1, 0, len(at) - 2)
    chord = f[at][cell] + slope[cell] * (load - load[at][cell])
    miss = np.maximum.reduceat(error, at[:-1])
    above, below = (np.maximum(np.maximum.reduceat(sign * (chord - f), at[:-1]), 0.0) for sign in (1.0, -1.0))
    return above + miss, below + miss


# -- shortest paths -------------------------------------------------------------------------------------------------------


class _Lengths:
    """c - eta between all pairs of grid states, in order; a state is (cut of type 2) * (cuts of type 3) + (cut of type 3)."""

    def __init__(self, load_1: float, split: _Axis, demote: _Axis) -> None:
        self._rows, self._columns = len(split.at), len(demote.at)
        n, b, v, load = (
            (f[split.at][:, None] + g[demote.at][None, :]) for f, g in zip(split.fine[1:], demote.fine[1:], strict=True)
        )
        q = 1 / (1 - load_1 - load)
        u = v * q / 2
        dn, db, dv, dq, du = (_high(f) - _low(f) for f in (n, b, v, q, u))
        up_n, up_b, up_v = (f[:, None] + g[None, :] for f, g in zip(split.above, demote.above, strict=True))
        down_n, down_b, _ = (f[:, None] + g[None, :] for f, g in zip(split.below, demote.below, strict=True))
        q_up = dq**2 / (4 * _low(q))
        u_up = (up_v * _high(q) + _high(v) * q_up) / 2 + dv * dq / 8
        exact = n, b, q, u
        around = [_around(f) for f in (dn, db, dq, du, up_n, up_b, down_n, down_b, q_up, u_up, _high(n), _high(b), _high(q), _high(u))]
        low_n, low_b = -_around(-_low(n)), -_around(-_low(b))
        self._source = self._leaving(exact, around, low_n, low_b)
        self._target = self._entering(exact, around)
        zero = np.zeros_like(n)
        still = [zero] * 10 + [n, b, q, u]
        self._first = self._leaving(exact, still, n, b)[0]
        self._last = self._entering(exact, still)[-1]

    @staticmethod
    def _leaving(exact: tuple[Floats, ...], around: list[Floats], low_n: Floats, low_b: Floats) -> Floats:
        n, b, q, _ = exact
        dn, _, dq, _, _, _, down_n, down_b, q_up, _, _, _, q_high, _ = around
        return np.stack(
            [
                -q * b + q_up * low_b - q_high * down_b,
                -q * n,
                q,
                q_up * low_n - q_high * down_n,
                -q_up,
                -q_high,
                q_high * low_n,
                -dq,
                dq * (low_n - dn) / 4,
            ],
            axis=-1,
        ).reshape(-1, 9)

    @staticmethod
    def _entering(exact: tuple[Floats, ...], around: list[Floats]) -> Floats:
        n, b, _, u = exact
        dn, db, _, du, up_n, up_b, _, _, _, u_up, n_high, b_high, _, u_high = around
        return np.stack(
            [
                np.ones_like(n),
                u,
                n * u + b,
                u_high,
                n_high * u_high + b_high,
                up_n * u_high + n_high * u_up + dn * du / 4 + up_b,
                u_up,
                (n_high * du + u_high * dn + dn * du + db) / 4,
                du,
            ],
            axis=-1,
        ).reshape(-1, 9)

    def shortest(self, bands: int) -> list[tuple[NDArray[np.intp], float]]:
        """For 1..bands steps: the states between, and the length."""
        rows, columns = self._rows, self._columns
        to_last = self._source @ self._last
        found = [(np.zeros(0, dtype=np.intp), float(self._first @ self._last))]
        reach = [self._target @ self._first]
        blocks = self._blocks() if bands > 2 else []
        for _ in range(bands - 2):
            before = reach[-1].reshape(rows, columns)
            after = np.empty((rows, columns))
            for row, block in enumerate(blocks):
                after[row] = (block + before[: row + 1].ravel()).min(axis=1)
            reach.append(after.ravel())
        for steps in range(2, bands + 1):
            ends = reach[steps - 2] + to_last
            state = int(ends.argmin())
            path = [state]
            for earlier in reversed(reach[: steps - 2]):
                path.append(self._step_before(path[-1], earlier))
            found.append((np.array(path[::-1], dtype=np.intp), float(ends[state])))
        return found

    def _blocks(self) -> list[Floats]:
        """By row of the target: lengths (target column, source state up to that row), infinite where alpha would fall."""
        columns = np.arange(self._columns)
        falls = np.where(columns[None, :] > columns[:, None], np.inf, 0.0)
        blocks = []
        for row in range(self._rows):
            upto = (row + 1) * self._columns
            block = self._target[upto - self._columns : upto] @ self._source[:upto].T
            block.reshape(self._columns, row + 1, self._columns)[:] += falls[:, None, :]
            blocks.append(block)
        return blocks

    def _step_before(self, state: int, reach: Floats) -> int:
        row, column = divmod(state, self._columns)
        ends = (self._source @ self._target[state] + reach).reshape(self._rows, self._columns)[: row + 1, : column + 1]
        return int(np.unravel_index(int(ends.argmin()), ends.shape)[0]) * self._columns + int(ends.argmin() % (column + 1))


def _low(f: Floats) -> Floats:
    """By cell, f at its lower corner. An axis of one cut has one cell."""
    return f[: max(f.shape[0] - 1, 1), : max(f.shape[1] - 1, 1)]


def _high(f: Floats) -> Floats:
    return f[min(1, f.shape[0] - 1) :, min(1, f.shape[1] - 1) :]


def _around(cells: Floats) -> Floats:
    """By state, the greatest over the cells that it is a corner of; an axis that `_low` left alone is met by its length."""
    for axis in (0, 1):
        first, last = cells.take([0], axis), cells.take([-1], axis)
        if cells.shape[axis] > 1:
            cells = np.maximum(np.concatenate([first, cells], axis), np.concatenate([cells, last], axis))
    return cells


# -- descent on the fine grid ---------------------------------------------------------------------------------------------


def _descend(load_1: float, split: Curve, demote: Curve, beta: NDArray[np.intp], alpha: NDArray[np.intp]) -> float:
    """Moves one cut at a time to its best place between its neighbours until none gains; in place. Returns the mean FCT."""
    raise NotImplementedError


__all__ = ["Sieve", "mean_fct", "solve"]
