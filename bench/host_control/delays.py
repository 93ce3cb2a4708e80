"""Off delay, on delay and residual packets, from what was commanded and what arrived. Pure.

The thesis's definitions: the off delay is from a command's arrival at the host to the flow's last packet, the on delay to its
first packet. A flow sends one packet in every turn of all flows, so both are known to one turn only: an off delay is negative
if the flow's last packet left before the command came. If that was more than a turn before, something had stopped the sender
(on two processors, the partner that commands). Such a delay counts as minus one turn: it was no longer than that, and how long
the sender had been stopped says nothing of the gate. Times are ns of CLOCK_REALTIME.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.host_control.capture import Arrivals
from emulation.measuring.confidence import Disturbance
from emulation.measuring.measure import mean, percentile

STALL_TURNS = 4
"""A sender that sent no packet of a flow for so many turns did not run."""
INTERRUPTED_NS = 200_000
"""A partner that shares the sender's processor interrupts it to send; a sender that pauses so long still counts as running."""
STALLED_SHARE = 0.05
"""A run is disturbed if more than this share of its commands met a sender that did not run."""
MISSED_SHARE = 0.01
"""As much as `statistics` leaves out at each end: so many commands without effect may change the percentiles that it shows."""
LONGEST_ON_NS = 5_000_000
"""A flow that is not open after this was not opened."""


class Command(NamedTuple):
    """When it arrived at the host, whether it opens the flow or closes it, and when the gate had obeyed (0: unknown)."""

    at_ns: int
    flow: int
    opens: bool
    done_ns: int = 0


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of one run, in ns and packets; one entry a command."""

    off_ns: tuple[int, ...] = ()
    on_ns: tuple[int, ...] = ()
    after_command: tuple[int, ...] = ()
    """Packets of the flow that came after the command to close had arrived, until the one to open."""
    after_close: tuple[int, ...] = ()
    """Those of them that came after the gate had closed, where that is known."""
    never_closed: int = 0
    """Commands to close without effect: the flow went on beyond half of its pause."""
    never_opened: int = 0
    stalled: int = 0
    """Commands while the sender did not run, for another program of the machine: they show nothing, and do not count."""

    def __add__(self, other: Delays) -> Delays:
        return Delays(
            self.off_ns + other.off_ns,
            self.on_ns + other.on_ns,
            self.after_command + other.after_command,
            self.after_close + other.after_close,
            self.never_closed + other.never_closed,
            self.never_opened + other.never_opened,
            self.stalled + other.stalled,
        )

    def disturbances(self, lost: int = 0) -> list[Disturbance]:
        """What the delays do not show, though the commands were given; `lost`: those that did not come to the host."""
        measured = len(self.off_ns) + self.never_closed
        total, found = measured + self.stalled, []
        if not total or self.stalled > STALLED_SHARE * total:
            text = f"{self.stalled} of {total} commands met a sender that did not run"
            found.append(Disturbance(text, self.stalled / total if total else 1.0, figures=("delay",)))
        missed = self.never_closed + self.never_opened + lost
        if measured and missed > MISSED_SHARE * 2 * measured:
            text = f"{missed} of {2 * measured} commands to close or open had no effect, or did not come"
            found.append(Disturbance(text, min(1.0, missed / (2 * measured)), figures=("missed",)))
        return found

    def to_dict(self) -> dict[str, Any]:
        """For a record; delays in microseconds."""
        return {
            "off_us": statistics(self.off_ns),
            "on_us": statistics(self.on_ns),
            "packets_after_command": packets(self.after_command),
            "packets_after_close": packets(self.after_close),
            "never_closed": self.never_closed,
            "never_opened": self.never_opened,
            "stalled": self.stalled,
        }


def measure(commands: Sequence[Command], arrivals: Arrivals) -> Delays:
    """The effect of every command to close that one to open the same flow follows."""
    found = Delays()
    turn_ns = round((turn_us(arrivals) or 0) * 1e3)
    by_flow: dict[int, list[Command]] = {}
    for command in sorted(commands):
        by_flow.setdefault(command.flow, []).append(command)
    for flow, given in by_flow.items():
        times = np.sort(arrivals.at_ns[arrivals.flow == flow])
        for close, open_ in pairwise(given):
            if not close.opens and open_.opens:
                found += _pause(close, open_, times, arrivals.at_ns, turn_ns)
    return found


def _pause(
    close: Command, open_: Command, times: NDArray[np.int64], everyone: NDArray[np.int64], turn_ns: int
) -> Delays:
    """One pause of a flow whose packets arrived at `times`, and those of all flows at `everyone`, in order."""
    begin, end = (int(np.searchsorted(times, at)) for at in (close.at_ns, open_.at_ns))
    if not begin:
        return Delays()  # before the first packet
    if close.at_ns - int(times[begin - 1]) > STALL_TURNS * turn_ns + INTERRUPTED_NS:
        return Delays(stalled=1)
    opened = end < times.size
    last, first = int(times[end - 1]), int(times[end] if opened else everyone[-1])
    if not opened and first - open_.at_ns <= STALL_TURNS * turn_ns + LONGEST_ON_NS:
        return Delays()  # the measurement ended before it was known
    if last > (close.at_ns + open_.at_ns) // 2 and end - begin > 2:
        return Delays(never_closed=1)
    on_ns: tuple[int, ...] = (first - open_.at_ns,)
    never_opened = stalled = 0
    if first - open_.at_ns > STALL_TURNS * turn_ns + LONGEST_ON_NS:
        others = int(np.searchsorted(everyone, first)) - int(np.searchsorted(everyone, open_.at_ns))
        never_opened = int(2 * others * turn_ns > first - open_.at_ns)  # the other flows went on sending
        stalled = 1 - never_opened
        on_ns = ()
    after_close = (end - int(np.searchsorted(times, close.done_ns)),) if close.done_ns else ()
    return Delays((max(last - close.at_ns, -turn_ns),), on_ns, (end - begin,), after_close, 0, never_opened, stalled)


def statistics(values_ns: Sequence[int]) -> dict[str, float | int | None]:
    """What the thesis's tables show of delays, in microseconds. The range is p99 - p1; the thesis's is max - min."""
    if not values_ns:
        return {"samples": 0}
    average = mean(values_ns) or 0.0
    deviation = math.sqrt(math.fsum((value - average) ** 2 for value in values_ns) / len(values_ns))
    at = {percent: percentile(values_ns, percent) or 0 for percent in (1, 50, 99)}
    found = {
        "mean": average,
        "std": deviation,
        "min": min(values_ns),
        "p50": at[50],
        "p99": at[99],
        "max": max(values_ns),
        "range": at[99] - at[1],
    }
    return {"samples": len(values_ns), **{name: round(value / 1e3, 2) for name, value in found.items()}}


def packets(counts: Sequence[int]) -> dict[str, float | int | None]:
    """Statistics of how many packets came, by command."""
    if not counts:
        return {"samples": 0}
    return {
        "samples": len(counts),
        "mean": round(mean(counts) or 0.0, 3),
        "p50": percentile(counts, 50),
        "p99": percentile(counts, 99),
        "max": max(counts),
    }


def turn_us(arrivals: Arrivals) -> float | None:
    """The time between two packets of one flow (p50, all flows), in microseconds: the resolution of the delays."""
    gaps = [np.diff(np.sort(arrivals.at_ns[arrivals.flow == flow])) for flow in np.unique(arrivals.flow)]
    found: NDArray[np.int64] = np.concatenate(gaps) if gaps else np.empty(0, np.int64)
    return round(float(np.median(found)) / 1e3, 2) if found.size else None
