"""The least mean FCT over all thresholds: a shortest path, with a bound that holds for every threshold there is. Pure, but for
a library in C that is loaded at its first use.

T of `controller.priorities.completion_model` is a sum of K steps c(s, t) between states s = (beta_{j-1}, alpha_{j-1}) and
t = (beta_j, alpha_j), t not below s in either coordinate, from (0, 0) to (infinity, infinity); with q = 1/(1 - sigma),
u = V q / 2,

    c(s, t) = q(s) [ (N(t) - N(s)) u(t) + B(t) - B(s) ]

Over a grid of cuts that is a shortest path of K steps, solved exactly by dynamic programming. c is a scalar product of what
depends on s and what depends on t. controller/priorities/compiled/ does the same in C, in a small part of the time.

*Value.* The path that the bound follows is nearly the best one. From there each cut moves to its best place among all fine cuts
between its neighbours, until that gains little.

*Refinement.* Where eta is large, the path under c - eta goes there. So the first grid is small; while the gap between value and
bound is too large, the cells beside the path's cuts are cut in two. A heavy bin of a histogram gets many cuts in that way, and
the rest of the distribution few.

*Bound.* Let x_1..x_{K-1} be any thresholds. Round every coordinate to an end of its grid cell at random, up with the
probability that keeps the mean load, by one uniform number for each cell of each axis: so the order is kept, and the
axes are independent. In a cell without load (no flow of type 2 is as large) the probability keeps the mean of B, which rises
there by larger flows; so cells are cut at the ends of such stretches first.
The result X is a path on the grid. If E c(X_{j-1}, X_j) sums to at most T(x) plus a sum of eta(cell of x_{j-1}, cell of x_j),
then T(x) >= E sum (c - eta)(X_{j-1}, X_j), which is no less than the shortest path under c less the greatest eta of the cells
at the two grid points. The length of that path is the bound.

eta is of second order in the width of the cells. N, B, V, q and u rise in both coordinates. With f^ and f_ the values of f at a
cell's upper and lower corner, df = f^ - f_, and f+ and f- the most that f's chord over the cell (against the load, or B) is
above and below f; D = N(X_j) - N(X_{j-1}), D^ = N^(t) - N_(s), functions of s and of t as in c:

    E q - q  <= q+ = dq^2 / (4 q_)                      q convex and E sigma = sigma (Kantorovich's inequality)
    E u - u  <= u+ = (V+ q^ + V^ q+) / 2 + dV dq / 8
    E q D u  =  Eq ED Eu + Eq cov(D, u) + ED cov(q, u) + Eu cov(q, D) + third central moment

* cov(D, u) <= cov(N(t), u) <= sum over the axes of (dN du)/4, each along the axis; the rest of D has the right sign (Harris).
* cov(q, D) <= 0 and cov(q, B(t) - B(s)) <= 0: rounding apart, only N(s) counts; in one cell with probabilities p <= p' to be
  rounded up, cov(q, N(t)) = dq dN p (1 - p') <= dq dN p (1 - p) = cov(q, N(s)).
* cov(q, u) <= dq du / 4, and the third moment is at most (dN(t) + dN(s)) dq du / 4.
* Eq ED Eu exceeds its value at x by Eq Eu (E - 1)(N(t) - N(s)), and the rest by at most D^ (q+ u^ + q^ u+). Summed by parts
  over the path the former is sum_j (E - 1) N(x_j) (A_j - A_{j+1}) with A_j = Eq_{j-1} Eu_j rising in j, so only N- counts,
  with A_{j+1} - A_j <= q^_j u^_{j+1} - q_{j-1} u_j at the lower corners. The same for B, with Eq alone.

    eta = q+ D^ u^ + q^ N-(s) u^ + q^ D^ u+ + q^ sum(dN du)/4 + D^ dq du / 4 + (dN(t) + dN(s)) dq du / 4
        + q+ (B^(t) - B_(s)) + q^ B-(s) - q_ (N-(t) u_ + B-(t))

The ends (0, 0) and infinity are not rounded: their terms are 0. f+ and f- come from a fine grid on which the slope df/dsigma is
monotone in each interval, where a chord misses by at most a quarter of the slope's change times the interval's load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.priorities.compiled.library import STEPS, TERMS, ShortestPaths, shortest_paths
from controller.priorities.completion_model import Traffic, step
from controller.priorities.flow_sizes import Floats, FlowSizes

FINE = 3_000
"""Cuts of the fine grid, about; thresholds are chosen among them."""
STATES = 1_024
"""States of the first grid, about: 32 x 32 for two types, and for one type alone as many as a quarter."""
MAX_STATES = 9_216
"""No grid has more; shortest paths over so many take some 50 ms in C."""
MAX_STATES_REFERENCE = 4_096
"""The same for NumPy, which takes half a second and 70 MB for so many."""
ENOUGH = 0.008
"""A gap that needs no finer grid."""
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


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """One type's cuts on the fine grid, the (rows N, B, V, sigma) there, how far (N, B, V) are from their chords inside each
    fine interval (against the load, and where there is none in it against B), and the coarse grid within it."""

    cut: Floats
    rows: Floats
    misses: Floats
    bare_misses: Floats
    at: NDArray[np.intp]

    def chords(self) -> tuple[Floats, Floats]:
        """By coarse cell: how far the chords of (N, B, V) are above and below."""
        if len(self.cut) == 1:
            return np.zeros((3, 1)), np.zeros((3, 1))
        _, b, _, load = self.rows
        found = _chords(load, self.rows[:3], self.at, self.misses)
        bare = np.diff(load[self.at]) == 0
        if bare.any():
            found = np.where(bare, _chords(b, self.rows[:3], self.at, self.bare_misses), found)
        return found[0], found[1]

    def finer(self, nodes: NDArray[np.intp]) -> _Axis:
        """The same with the cells on both sides of these nodes cut in two; itself if none can be."""
        cells = np.unique(np.concatenate([nodes - 1, nodes]))
        cells = cells[(cells >= 0) & (cells < len(self.at) - 1)]
        at = np.union1d(self.at, self._inside(self.at[cells], self.at[cells + 1])) if len(cells) else self.at
        return self if len(at) == len(self.at) else _Axis(self.cut, self.rows, self.misses, self.bare_misses, at)

    def _inside(self, first: NDArray[np.intp], last: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where to cut cells: at the end of a stretch without load if there is one in the cell, the nearest to its middle."""
        middle = (first + last) // 2
        edges = np.flatnonzero(np.diff(np.diff(self.rows[3]) == 0)) + 1
        if not len(edges):
            return middle
        near = edges[np.abs(edges[:, None] - middle).argmin(axis=0)]
        return np.where((first < near) & (near < last), near, middle)


def solve(traffic: Traffic, bands: int) -> OptimalCuts:
    """The best cuts for so many bands. Those of a type without load are 0."""
    both = traffic.flows_2() > 0 and traffic.flows_3() > 0
    nodes = round(STATES**0.5) if both else STATES // 4
    split = _axis(traffic, traffic.sizes_2 if traffic.flows_2() else None, nodes, known=True)
    demote = _axis(traffic, traffic.sizes_3 if traffic.flows_3() else None, nodes, known=False)
    compiled = shortest_paths()
    most = MAX_STATES_REFERENCE if compiled is None else MAX_STATES
    bound = float(split.rows[1, -1] + demote.rows[1, -1]) / (1 - traffic.load_1)  # no flow waits
    value, best = np.inf, (np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp))
    while True:
        path, length = _Lengths(traffic.load_1, split, demote).shortest(bands, compiled)
        at = path // len(demote.at), path % len(demote.at)
        cuts = split.at[at[0]], demote.at[at[1]]
        reached = _descend(traffic.load_1, split.rows, demote.rows, *cuts)
        bound = max(bound, length)
        if reached < value:
            value, best = reached, cuts
        finer = split.finer(at[0]), demote.finer(at[1])
        if value <= bound * (1 + ENOUGH) or finer == (split, demote) or len(finer[0].at) * len(finer[1].at) > most:
            return OptimalCuts(split.cut[best[0]], demote.cut[best[1]], value, bound)
        split, demote = finer


# -- grids ----------------------------------------------------------------------------------------------------------------


def _axis(traffic: Traffic, sizes: FlowSizes | None, nodes: int, *, known: bool) -> _Axis:
    if sizes is None:
        return _Axis(np.zeros(1), np.zeros((4, 1)), np.zeros((3, 0)), np.zeros((3, 0)), np.zeros(1, dtype=np.intp))
    cut = _fine_cuts(sizes)
    rows = traffic.split(cut) if known else traffic.demote(cut)
    at = _coarse(traffic.load_1, cut, rows, sizes, nodes)
    misses = _fine_misses(traffic, cut, rows, sizes, known=known)
    return _Axis(cut, rows, misses, _bare_misses(cut, rows), at)


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
        finished = sizes.partial(cut).finished
        density = np.diff(finished) / np.diff(cut)
        if known:  # d sigma = lambda x dF
            fall = (1 - finished[:-1]) / (density * begin) - np.maximum(1 - finished[1:], 0) / (density * end)
            changes = [(1 / begin - 1 / end) / traffic.flows(), fall / traffic.flows(), 2 * (end - begin)]
        else:  # d sigma = lambda (1 - F) dx
            hazard = density / (1 - finished[:-1]), density / np.maximum(1 - finished[1:], 0)
            rise = [hazard[1] - hazard[0], hazard[1] * end - hazard[0] * begin]
            changes = [*(change / traffic.flows() for change in rise), 2 * (end - begin)]
        misses = np.stack(changes) * width / 4
    most = np.diff(rows[:3])
    return np.where(np.isfinite(misses), np.minimum(misses, most), most)


def _bare_misses(cut: Floats, rows: Floats) -> Floats:
    """The same against B, for intervals without flows: V rises with the square of the cut, B with the cut."""
    width = np.diff(rows[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        curve = np.diff(rows[2]) / 4 * np.diff(cut) / (cut[:-1] + cut[1:])
    still = np.zeros(len(width))
    return np.stack([still, still, np.where(np.isfinite(curve), curve, 0.0)])


def _chords(against: Floats, rows: Floats, at: NDArray[np.intp], misses: Floats) -> Floats:
    """By row and coarse cell: the most that the chord of each row against another one is above that row, and below it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(rows[:, at]) / np.diff(against[at])
    slope = np.where(np.isfinite(slope), slope, 0.0)
    cell = np.clip(np.searchsorted(at, np.arange(len(against)), side="right") - 1, 0, len(at) - 2)
    chord = rows[:, at][:, cell] + slope[:, cell] * (against - against[at][cell])
    miss = np.maximum.reduceat(misses, at[:-1], axis=1)
    return np.stack(
        [np.maximum(np.maximum.reduceat(sign * (chord - rows), at[:-1], axis=1), 0.0) + miss for sign in (1.0, -1.0)]
    )


# -- shortest paths -------------------------------------------------------------------------------------------------------


class _Lengths:
    """c - eta between all pairs of grid states, in order; a state is (cut of type 2) * (cuts of type 3) + (cut of type 3)."""

    def __init__(self, load_1: float, split: _Axis, demote: _Axis) -> None:
        self._rows, self._columns = len(split.at), len(demote.at)
        n, b, v, load = split.rows[:, split.at, None] + demote.rows[:, None, demote.at]
        q = 1 / (1 - load_1 - load)
        u = v * q / 2
        dn, dv, dq, du = (_high(f) - _low(f) for f in (n, v, q, u))
        above, below = (one[:, :, None] + other[:, None, :] for one, other in zip(split.chords(), demote.chords(), strict=True))
        up_v, down_n, down_b = above[2], below[0], below[1]
        q_up = dq**2 / (4 * _low(q))
        u_up = (up_v * _high(q) + _high(v) * q_up) / 2 + dv * dq / 8
        exact = n, b, q, u
        cells = dn, dq, du, _covariance(split, demote, u), down_n, down_b, q_up, u_up, _high(n), _high(b), _high(q), _high(u)
        around = [_around(f, n.shape) for f in cells]
        low_n, low_b, low_q, low_u = (-_around(-_low(f), n.shape) for f in exact)
        still = [np.zeros_like(n)] * 8 + [n, b, q, u]
        leaving, entering = self._leaving(exact, still, n, b, q), self._entering(exact, still, u)
        self._first, self._last = leaving[0], entering[-1]
        self._source = self._leaving(exact, around, low_n, low_b, low_q)
        self._target = self._entering(exact, around, low_u)

    @staticmethod
    def _leaving(exact: tuple[Floats, ...], around: list[Floats], low_n: Floats, low_b: Floats, low_q: Floats) -> Floats:
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
                low_q,
            ],
            axis=-1,
        ).reshape(-1, TERMS)

    @staticmethod
    def _entering(exact: tuple[Floats, ...], around: list[Floats], low_u: Floats) -> Floats:
        n, b, _, u = exact
        dn, _, du, n_with_u, down_n, down_b, _, u_up, n_high, b_high, _, u_high = around
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
                down_n * low_u + down_b,
            ],
            axis=-1,
        ).reshape(-1, TERMS)

    def shortest(self, bands: int, compiled: ShortestPaths | None) -> tuple[NDArray[np.intp], float]:
        """The states between, and the length, of the shortest path of so many steps."""
        if bands == 1:
            return np.zeros(0, dtype=np.intp), float(self._first @ self._last)
        reach = self._reach(bands - 1, compiled)
        ends = reach.pop() + self._source @ self._last
        path = [int(ends.argmin())]
        while reach:
            path.append(self._before(path[-1], reach.pop()))
        return np.array(path[::-1], dtype=np.intp), float(ends.min())

    def _reach(self, steps: int, compiled: ShortestPaths | None) -> list[Floats]:
        """Lengths of the shortest paths of 1 to `steps` steps from (0, 0) to each state."""
        first = self._target @ self._first
        if compiled is not None and steps <= STEPS:
            return compiled.lengths(self._columns, self._source, self._target, first, steps)
        reach, blocks = [first], self._blocks() if steps > 1 else []
        for _ in range(steps - 1):
            before = reach[-1]
            after = [(block + before[: block.shape[1]]).min(axis=1) for block in blocks]
            reach.append(np.concatenate(after))
        return reach

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
