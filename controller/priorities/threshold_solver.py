"""The least mean FCT over all thresholds: a shortest path, with a bound that holds for every threshold there is. Pure.

T of `controller.priorities.completion_model` is a sum of K steps c(s, t) between states s = (beta_{j-1}, alpha_{j-1}) and
t = (beta_j, alpha_j), t not below s in either coordinate, from (0, 0) to (infinity, infinity); with q = 1/(1 - sigma),
u = V q / 2,

    c(s, t) = q(s) [ (N(t) - N(s)) u(t) + B(t) - B(s) ]

Over a grid of cuts that is a shortest path of K steps, solved exactly by dynamic programming for all K at once. c is a scalar
product of what depends on s and what depends on t, so that all steps are one matrix product.

*Bound.* Let x_1..x_{K-1} be any thresholds. Round every coordinate to an end of its grid cell at random, up with the
probability that keeps the mean load, by one uniform number for each cell of each axis: so the order is kept, and the
axes are independent.
The result X is a path on the grid. If E c(X_{j-1}, X_j) sums to at most T(x) plus a sum of eta(cell of x_{j-1}, cell of x_j),
then T(x) >= E sum (c - eta)(X_{j-1}, X_j), which is no less than the shortest path under c less the greatest eta of the cells
at the two grid points. The length of that path is the bound.

eta is of second order in the width of the cells. N, B, V, q and u rise in both coordinates. With f^ and f_ the values of f at a
cell's upper and lower corner, df = f^ - f_, and f+ and f- the most that f's chord over the cell (against the load) is above and
below f; D = N(X_j) - N(X_{j-1}), D^ = N^(t) - N_(s), functions of s and of t as in c:

    E q - q  <= q+ = dq^2 / (4 q_)                      q convex and E sigma = sigma (Kantorovich's inequality)
    E u - u  <= u+ = (V+ q^ + V^ q+) / 2 + dV dq / 8
    E q D u  =  Eq ED Eu + Eq cov(D, u) + ED cov(q, u) + Eu cov(q, D) + third central moment

* cov(D, u) <= cov(N(t), u) <= sum over the axes of (dN du)/4, each along the axis; the rest of D has the right sign (Harris).
* cov(q, D) <= 0 and cov(q, B(t) - B(s)) <= 0: rounding apart, only N(s) counts; in one cell with probabilities p <= p' to be
  rounded up, cov(q, N(t)) = dq dN p (1 - p') <= dq dN p (1 - p) = cov(q, N(s)).
* cov(q, u) <= dq du / 4, and the third moment is at most (dN(t) + dN(s)) dq du / 4.
* Eq ED Eu exceeds its value at x by Eq Eu (E - 1)(N(t) - N(s)), and the rest by at most D^ (q+ u^ + q^ u+). Summed by parts
  over the path the former is sum_j (E - 1) N(x_j) (A_j - A_{j+1}) with A_j = Eq_{j-1} Eu_j rising in j, so only N- counts,
  with A_{j+1}.
  The same for B, with Eq alone.

    eta = q+ D^ u^ + q^ N-(s) u^ + q^ D^ u+ + q^ sum(dN du)/4 + D^ dq du / 4 + (dN(t) + dN(s)) dq du / 4
        + q+ (B^(t) - B_(s)) + q^ B-(s)

The ends (0, 0) and infinity are not rounded: their terms are 0. f+ and f- come from a fine grid on which the slope df/dsigma is
monotone in each interval, where a chord misses by at most a quarter of the slope's change times the interval's load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.priorities.completion_model import Traffic, step
from controller.priorities.flow_sizes import Floats, FlowSizes

FINE = 3_000
"""Cuts of the fine grid, about; thresholds are chosen among them."""
STATES = 4_096
"""States of the coarse grid, about: 64 x 64 for two types, and for one type alone as many as a quarter."""


SWEEPS = 30
SWEEP_GAIN = 1e-5
"""The descent ends after so many sweeps, or when one gains less than this share."""


@dataclass(frozen=True, slots=True)
class OptimalCuts:
    """Optimal cuts for one number of bands: bytes, mean FCT and its lower bound in bytes of the link's time."""

    beta: Floats
    alpha: Floats
    value: float
    bound: float


class _Axis(NamedTuple):
    """One type's cuts on the fine grid, the (rows N, B, V, sigma) there, the coarse grid within it, and by coarse cell how far
    the chords of (N, B, V) are above and below."""

    cut: Floats
    rows: Floats
    at: NDArray[np.intp]
    above: Floats
    below: Floats


def solve(traffic: Traffic, bands: int) -> OptimalCuts:
    """The best cuts for so many bands. Those of a type without load are 0."""
    both = traffic.flows_2() > 0 and traffic.flows_3() > 0
    nodes = round(STATES**0.5) if both else STATES // 4
    split = _axis(traffic, traffic.sizes_2 if traffic.flows_2() else None, nodes, known=True)
    demote = _axis(traffic, traffic.sizes_3 if traffic.flows_3() else None, nodes, known=False)
    _, bound = _Lengths(traffic.load_1, split, demote, relaxed=True).shortest(bands)
    path, _ = _Lengths(traffic.load_1, split, demote, relaxed=False).shortest(bands)
    beta, alpha = split.at[path // len(demote.at)], demote.at[path % len(demote.at)]
    value = _descend(traffic.load_1, split.rows, demote.rows, beta, alpha)
    return OptimalCuts(split.cut[beta], demote.cut[alpha], value, bound)


# -- grids ----------------------------------------------------------------------------------------------------------------


def _axis(traffic: Traffic, sizes: FlowSizes | None, nodes: int, *, known: bool) -> _Axis:
    if sizes is None:
        return _Axis(np.zeros(1), np.zeros((4, 1)), np.zeros(1, dtype=np.intp), np.zeros((3, 1)), np.zeros((3, 1)))
    cut = _fine_cuts(sizes)
    rows = traffic.split(cut) if known else traffic.demote(cut)
    at = _coarse(traffic.load_1, cut, rows, sizes, nodes)
    misses = _fine_misses(traffic, cut, rows, sizes, known=known)
    above, below = zip(*(_chords(rows[3], f, at, miss) for f, miss in zip(rows[:3], misses, strict=True)), strict=True)
    return _Axis(cut, rows, at, np.stack(above), np.stack(below))


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


def _coarse(load_1: float, cut: Floats, rows: Floats, sizes: FlowSizes, nodes: int) -> NDArray[np.intp]:
    """A choice of fine cuts: the distribution's own points if they are few, and others, even in flows, bytes, -log(1 - sigma)
    and log V together. Any choice is right; with these weights the bound was closest."""
    n, b, v, load = rows
    measure = np.zeros(len(n))
    for weight, f in ((1, n), (2, b), (3, -np.log(1 - load_1 - load)), (1, np.log(v + v[-1] * 1e-3))):
        measure += weight * (f - f[0]) / (f[-1] - f[0])
    ends = np.array([0, len(n) - 1])
    knees = np.union1d(ends, np.searchsorted(cut, sizes.sizes))
    if len(knees) > nodes // 2:
        knees = ends
    # every stretch between knees gets intervals in proportion to its measure
    share = np.diff(measure[knees]) / measure[-1] * (nodes - len(knees))
    chosen = [knees]
    for first, last, more in zip(knees[:-1], knees[1:], np.round(share).astype(int), strict=True):
        wanted = np.linspace(measure[first], measure[last], more + 2)[1:-1]
        chosen.append(first + np.searchsorted(measure[first:last], wanted))
    return np.unique(np.concatenate(chosen))


def _fine_misses(traffic: Traffic, cut: Floats, rows: Floats, sizes: FlowSizes, *, known: bool) -> Floats:
    """How far N, B and V can be from their chords inside each fine interval."""
    begin, end, width = cut[:-1], cut[1:], np.diff(rows[3])
    with np.errstate(divide="ignore", invalid="ignore"):
        if known:  # d sigma = lambda x dF
            changes = [(1 / begin - 1 / end) / traffic.flows(), np.zeros(len(width)), end - begin]
        else:  # d sigma = lambda (1 - F) dx
            finished = sizes.partial(cut).finished
            density = np.diff(finished) / np.diff(cut)
            hazard = density / (1 - finished[:-1]), density / np.maximum(1 - finished[1:], 0)
            rise = [hazard[1] - hazard[0], hazard[1] * end - hazard[0] * begin]
            changes = [*(change / traffic.flows() for change in rise), 2 * (end - begin)]
        misses = np.stack(changes) * width / 4
    most = np.diff(rows[:3])
    return np.where(np.isfinite(misses), np.minimum(misses, most), most)


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

    def __init__(self, load_1: float, split: _Axis, demote: _Axis, *, relaxed: bool) -> None:
        self._rows, self._columns = len(split.at), len(demote.at)
        n, b, v, load = split.rows[:, split.at, None] + demote.rows[:, None, demote.at]
        q = 1 / (1 - load_1 - load)
        u = v * q / 2
        dn, dv, dq, du = (_high(f) - _low(f) for f in (n, v, q, u))
        up_v = split.above[2][:, None] + demote.above[2]
        down_n, down_b, _ = split.below[:, :, None] + demote.below[:, None, :]
        q_up = dq**2 / (4 * _low(q))
        u_up = (up_v * _high(q) + _high(v) * q_up) / 2 + dv * dq / 8
        exact = n, b, q, u
        cells = dn, dq, du, _covariance(split, demote, u), down_n, down_b, q_up, u_up, _high(n), _high(b), _high(q), _high(u)
        around = [_around(f, n.shape) for f in cells]
        low_n, low_b = -_around(-_low(n), n.shape), -_around(-_low(b), n.shape)
        still = [np.zeros_like(n)] * 8 + [n, b, q, u]
        leaving, entering = self._leaving(exact, still, n, b), self._entering(exact, still)
        self._first, self._last = leaving[0], entering[-1]
        self._source = self._leaving(exact, around, low_n, low_b) if relaxed else leaving
        self._target = self._entering(exact, around) if relaxed else entering

    @staticmethod
    def _leaving(exact: tuple[Floats, ...], around: list[Floats], low_n: Floats, low_b: Floats) -> Floats:
        n, b, q, _ = exact
        dn, dq, _, _, down_n, down_b, q_up, _, _, _, q_high, _ = around
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
        dn, _, du, n_with_u, _, _, _, u_up, n_high, b_high, _, u_high = around
        return np.stack(
            [
                np.ones_like(n),
                u,
                n * u + b,
                u_high,
                n_high * u_high + b_high,
                n_high * u_up + n_with_u,
                u_up,
                (n_high + dn) * du / 4,
                du,
            ],
            axis=-1,
        ).reshape(-1, 9)

    def shortest(self, bands: int) -> tuple[NDArray[np.intp], float]:
        """The states between, and the length, of the shortest path of so many steps."""
        if bands == 1:
            return np.zeros(0, dtype=np.intp), float(self._first @ self._last)
        reach = [self._target @ self._first]
        blocks = self._blocks() if bands > 2 else []
        for _ in range(bands - 2):
            before = reach[-1]
            after = [(block + before[: block.shape[1]]).min(axis=1) for block in blocks]
            reach.append(np.concatenate(after))
        ends = reach.pop() + self._source @ self._last
        path = [int(ends.argmin())]
        while reach:
            path.append(self._before(path[-1], reach.pop()))
        return np.array(path[::-1], dtype=np.intp), float(ends.min())

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

    def _before(self, state: int, reach: Floats) -> int:
        """The state before on the shortest path, when states are reached with lengths `reach`."""
        row, column = divmod(state, self._columns)
        ends = (self._source @ self._target[state] + reach).reshape(self._rows, self._columns)
        return int(np.where(self._ordered(row, column), ends, np.inf).argmin())

    def _ordered(self, row: int, column: int) -> NDArray[np.bool_]:
        return np.logical_and.outer(np.arange(self._rows) <= row, np.arange(self._columns) <= column)


def _low(f: Floats) -> Floats:
    """By cell, f at its lower corner. An axis of one cut has one cell."""
    return f[: max(f.shape[0] - 1, 1), : max(f.shape[1] - 1, 1)]


def _high(f: Floats) -> Floats:
    return f[min(1, f.shape[0] - 1) :, min(1, f.shape[1] - 1) :]


def _covariance(split: _Axis, demote: _Axis, u: Floats) -> Floats:
    """By cell, the most that N and u can covary: N is a sum over the axes, which are rounded apart."""
    bound = np.zeros_like(_low(u))
    if len(split.at) > 1:
        rise = np.diff(u, axis=0)
        bound += np.diff(split.rows[0, split.at])[:, None] * _widest(rise) / 4
    if len(demote.at) > 1:
        bound += np.diff(demote.rows[0, demote.at]) * _widest(np.diff(u, axis=1).T).T / 4
    return bound


def _widest(rise: Floats) -> Floats:
    """The greater of neighbours along the second axis."""
    return rise if rise.shape[1] == 1 else np.maximum(rise[:, :-1], rise[:, 1:])


def _around(cells: Floats, shape: tuple[int, ...]) -> Floats:
    """By state, the greatest over the cells that it is a corner of."""
    for axis in (0, 1):
        if shape[axis] > 1:
            first, last = cells.take([0], axis), cells.take([-1], axis)
            cells = np.maximum(np.concatenate([first, cells], axis), np.concatenate([cells, last], axis))
    return cells


# -- descent on the fine grid ---------------------------------------------------------------------------------------------


def _descend(load_1: float, split: Floats, demote: Floats, beta: NDArray[np.intp], alpha: NDArray[np.intp]) -> float:
    """Moves one cut at a time to its best place between its neighbours until that gains little; in place. Returns T."""
    rows = split, demote
    cuts = [np.concatenate([[0], inner, [f.shape[1] - 1]]) for inner, f in zip((beta, alpha), rows, strict=True)]

    def length() -> float:
        states = split[:, cuts[0]] + demote[:, cuts[1]]
        return float(step(load_1, states[:, :-1], states[:, 1:]).sum())

    best = length()
    for _ in range(SWEEPS):
        for at in range(1, len(beta) + 1):
            for axis in (0, 1):
                low, high = cuts[axis][at - 1], cuts[axis][at + 1] + 1
                here = rows[axis][:, low:high] + rows[1 - axis][:, cuts[1 - axis][at], None]
                before, after = (split[:, cuts[0][near], None] + demote[:, cuts[1][near], None] for near in (at - 1, at + 1))
                cuts[axis][at] = low + int((step(load_1, before, here) + step(load_1, here, after)).argmin())
        last, best = best, length()
        if last - best <= best * SWEEP_GAIN:
            break
    beta[:], alpha[:] = cuts[0][1:-1], cuts[1][1:-1]
    return best
