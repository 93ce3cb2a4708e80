"""Adds the size reports of many hosts up to the traffic that thresholds are computed for. Pure.

Counts add up over hosts and over time. Older periods fade: each counts `MEMORY` times as much as the one after it, so that one
quiet period does not leave thresholds to a handful of flows. The flows never fade so far that fewer than `KEPT_FLOWS` are left,
or a fabric where few end in a period would never have enough; loads are of the last periods in any case. Where a period's
sizes differ from all before by more than chance explains, the periods before are forgotten: the traffic has changed, and a mean
of two workloads is neither.

*Load.* A type's share of the load is its bytes over what the reporting hosts' links could have carried in the periods that they
report: a lost report takes both away. The thresholds are one set for the whole fabric, and a flow waits where
the load is high, so the sum is raised to the load of the busiest link where the switches' counters say more.

*Few large flows.* Where a bin and its neighbours hold few flows, which of these bins hold them is chance, and so is the largest
size seen. Thresholds that are best for such a histogram fit its gaps: with 16 hosts' reports of data mining they cost up to
29 % more than the best. So flows there count in equal parts in the bins around, half an octave up and down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from controller.priorities.completion_model import Traffic
from controller.priorities.flow_sizes import Floats, FlowSizes
from protocol.bodies.flows.priorities import SIZE_ROW
from protocol.bodies.flows.size_bins import BINS, EDGES, TYPES
from protocol.units import COUNT_MAX

MEMORY = 0.7
CHANGE = 0.1
"""The traffic has changed when the distributions of flow sizes are so far apart (Kolmogorov and Smirnov's distance), and..."""
CHANCE = 1.95
"""...so many times sqrt(1/n + 1/m) farther: for two samples of one distribution, n and m flows, the odds are 1 : 1,000."""
MIN_FLOWS = 100
"""Fewer flows of types 2 and 3 than this do not show a distribution."""
KEPT_FLOWS = 2 * MIN_FLOWS
FEW = 40
"""Flows in a bin and its neighbours, `AROUND` on each side, that do not show how sizes are distributed among them."""
AROUND = 2
MAX_LOAD = 0.95
"""A link that carries all it can has no mean completion time in the model; thresholds at this load serve it as well."""
SPANNED = 10
"""A report counts as at most what its link carries in so many usual periods: a flow that ended may have begun before, but a
host that reports more is wrong, and must not decide for all."""
LEAST_SHARE = 1e-6
"""Of the load: a type with less, of which no flow has ended for long, says nothing of sizes; the model would divide by it."""
NO_LOAD = 1e-12
"""Less than this is nothing: a fabric that has been idle for hours."""
_ROW = np.dtype({"names": SIZE_ROW.names, "formats": ["u1", "u1", ">u4", ">u8"], "offsets": [0, 1, 2, 6]})
_EDGES = tuple(map(float, EDGES))
_LOW, _HIGH = np.array(_EDGES[:-1]), np.array(_EDGES[1:])


class Reported(NamedTuple):
    """A SIZE_REPORT of a host whose link has the rate `rate_bps`; `rows` as on the wire."""

    rate_bps: int
    period_ns: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """Flows and their bytes, each by type (row 0 is type 1) and bin; and what the links could have carried meanwhile, bytes."""

    flows: Floats
    bytes: Floats
    capacity_bytes: float

    @classmethod
    def none(cls) -> Self:
        """Nothing reported."""
        return cls(np.zeros((TYPES, BINS)), np.zeros((TYPES, BINS)), 0.0)

    @classmethod
    def of(cls, reports: Iterable[Reported]) -> Self:
        """All reports together, as far as they can be believed: none counts as more than `SPANNED` says, and no flow as more or
        fewer bytes than its bin has. Their rows must be those of decoded messages."""
        taken = list(reports)
        usual_ns = float(np.median([report.period_ns for report in taken if report.period_ns] or [0]))
        rows = np.frombuffer(b"".join([report.rows for report in taken]), dtype=_ROW)
        flows = rows["flows"].astype(np.float64)
        size = np.clip(rows["bytes"].astype(np.float64), flows * _LOW[rows["bin"]], flows * _HIGH[rows["bin"]])
        report_of = np.repeat(np.arange(len(taken)), [len(report.rows) // _ROW.itemsize for report in taken])
        most = np.array([report.rate_bps for report in taken], dtype=np.float64) * usual_ns * SPANNED / 8e9
        told = np.bincount(report_of, weights=size, minlength=len(taken))
        believed = np.minimum(1.0, most / np.maximum(told, 1.0))[report_of]
        cells = (rows["type"].astype(np.intp) - 1) * BINS + rows["bin"]
        counted, summed = (np.bincount(cells, weights=each * believed, minlength=TYPES * BINS) for each in (flows, size))
        capacity_bytes = sum(report.rate_bps * min(report.period_ns, SPANNED * usual_ns) for report in taken) / 8e9
        return cls(_by_type(counted), _by_type(summed), capacity_bytes)

    def __add__(self, other: FlowCounts) -> FlowCounts:
        return FlowCounts(self.flows + other.flows, self.bytes + other.bytes, self.capacity_bytes + other.capacity_bytes)

    def faded(self) -> FlowCounts:
        """The weights of these counts one period later."""
        flows = float(self.flows[1:].sum())
        kept = max(MEMORY, min(1.0, KEPT_FLOWS / flows)) if flows else MEMORY
        return FlowCounts(self.flows * kept, self.bytes * MEMORY, self.capacity_bytes * MEMORY)

    def changed_from(self, before: FlowCounts) -> bool:
        """Whether these sizes are other traffic than those before: of type 2 or of type 3, if both have `MIN_FLOWS`."""
        for mine, other in zip(self.flows[1:], before.flows[1:], strict=True):
            flows = float(mine.sum()), float(other.sum())
            if min(flows) < MIN_FLOWS:
                continue
            apart = np.abs(mine.cumsum() / flows[0] - other.cumsum() / flows[1]).max()
            if apart > CHANGE + CHANCE * (1 / flows[0] + 1 / flows[1]) ** 0.5:
                return True
        return False

    def loads(self) -> tuple[float, ...]:
        """The bytes of each type, as a share of what the hosts' links could have carried."""
        if not self.capacity_bytes:
            return (0.0,) * TYPES
        return tuple(float(share) for share in self.bytes.sum(axis=1) / self.capacity_bytes)

    def traffic(self, busiest: float = 0.0) -> Traffic | None:
        """The traffic for `controller.priorities.thresholds`, None while there are too few flows of types 2 and 3, or they have
        faded away. `busiest` is the load of the busiest link, 0 if unknown."""
        loads = self.loads()
        total = sum(loads)
        if self.flows[1:].sum() < MIN_FLOWS or total < NO_LOAD:
            return None
        factor = min(max(total, busiest), MAX_LOAD) / total
        load_1, load_2, load_3 = (load * factor if load >= LEAST_SHARE * total else 0.0 for load in loads)
        if not load_2 + load_3:
            return None
        sizes_2, sizes_3 = (self._sizes(flow_type) if load else None for flow_type, load in ((2, load_2), (3, load_3)))
        return Traffic(load_1, load_2, load_3, sizes_2, sizes_3)

    def _sizes(self, flow_type: int) -> FlowSizes:
        """Of a type with a load: the flows of others may have faded to the least number there is, which spreads to nothing."""
        return FlowSizes.from_histogram(_EDGES, _spread(self.flows[flow_type - 1]).tolist())

    def histogram(self, flow_type: int) -> list[tuple[int, int, int]]:
        """(least size in bytes, flows, bytes) of every bin of a type that has flows, rounded."""
        flows, size = self.flows[flow_type - 1], self.bytes[flow_type - 1]
        return [(EDGES[at], round(float(flows[at])), min(COUNT_MAX, round(float(size[at])))) for at in np.flatnonzero(flows)]


def _spread(flows: Floats) -> Floats:
    """By bin: flows among few others count in equal parts in the bins around."""
    window = np.ones(2 * AROUND + 1)
    few = np.where(np.convolve(flows, window, "same") < FEW, flows, 0.0)
    wider = np.convolve(few, window / len(window))
    found = flows - few + wider[AROUND:-AROUND]
    found[0] += wider[:AROUND].sum()
    found[-1] += wider[-AROUND:].sum()
    return np.asarray(found)


def _by_type(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64).reshape(TYPES, BINS)
