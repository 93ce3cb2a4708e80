"""Turns the switches' counters into the load of ports between two readings, and into dropped frames by cause.

Pure: counters as OpenFlow 1.3 port statistics give them (7.3.5.6), rates in bit/s. The interval is taken
from the switch's own clock (the port's duration) where it is given, so that a late reply does not look like
more load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from controller.openflow.intake.hosts import PortRef
from controller.openflow.tables.flowtable import Cause


class Counters(NamedTuple):
    """One port's counters; `at_ns` is when they were read."""

    number: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    tx_dropped: int
    at_ns: int


class Load(NamedTuple):
    """What a port carried between two readings; `tx_dropped` and the others count packets in that interval."""

    rx_bps: int
    tx_bps: int
    rx_packets: int
    tx_packets: int
    tx_dropped: int
    tx_dropped_total: int
    interval_ns: int


UNREAD_MAX = 4
"""How often the load of a port is told that was not read anew: a switch that hangs, or is cut off, must not seem to carry for
minutes what it carried last."""


class PortMeter:
    """Computes loads from each port's last two readings."""

    def __init__(self) -> None:
        self._last: dict[PortRef, Counters] = {}
        self._load: dict[PortRef, Load] = {}
        self._unread: Counter[PortRef] = Counter()  # how often a load was told since its port was read

    def read(self, dpid: int, readings: Iterable[Counters]) -> None:
        """Takes new counters of some of a switch's ports. A reading of the same time as the last one changes nothing: some
        switches count whole seconds only (table 5: nanoseconds are optional)."""
        for now in readings:
            ref = PortRef(dpid, now.number)
            before = self._last.get(ref)
            self._unread.pop(ref, None)
            began_anew = before is None or now.tx_bytes < before.tx_bytes or now.rx_bytes < before.rx_bytes
            if before is not None and now.at_ns == before.at_ns and not began_anew:
                continue
            self._last[ref] = now
            if before is None or began_anew or now.at_ns <= before.at_ns:
                self._load.pop(ref, None)  # the first reading, or the counters started again
                continue
            interval_ns = now.at_ns - before.at_ns
            self._load[ref] = Load(
                rx_bps=(now.rx_bytes - before.rx_bytes) * 8_000_000_000 // interval_ns,
                tx_bps=(now.tx_bytes - before.tx_bytes) * 8_000_000_000 // interval_ns,
                rx_packets=_grown(before.rx_packets, now.rx_packets),
                tx_packets=_grown(before.tx_packets, now.tx_packets),
                tx_dropped=_grown(before.tx_dropped, now.tx_dropped),
                tx_dropped_total=now.tx_dropped,
                interval_ns=interval_ns,
            )

    def forget(self, dpid: int) -> None:
        """Forgets a switch that has disconnected."""
        for ref in [ref for ref in self._last if ref.dpid == dpid]:
            self.forget_port(ref)

    def forget_port(self, ref: PortRef) -> None:
        """Forgets a port that was deleted."""
        self._last.pop(ref, None)
        self._load.pop(ref, None)
        self._unread.pop(ref, None)

    def loads(self) -> dict[PortRef, Load]:
        """The load of every port that has been read twice, and again in the last UNREAD_MAX calls."""
        self._unread.update(self._load.keys())
        for ref in [ref for ref, times in self._unread.items() if times > UNREAD_MAX]:
            del self._load[ref], self._unread[ref]
        return dict(self._load)


def _grown(before: int, now: int) -> int:
    """What was counted since the last reading; all, if the counter started again."""
    return now - before if now >= before else now


STEADY_BPS = 50_000
"""A load that differs by no more than this from what was told of it is told as before. It is no share of the port's rate: a
port may say 10 Gbit/s of a link that carries far less."""


class SteadyLoads:
    """Loads as they are told, so that what does not matter is no change: `STEADY_BPS` more or less, as LLDP makes it. That a
    port has become silent, or is not any more, and every frame that was dropped, is told as it is."""

    def __init__(self) -> None:
        self._told: dict[PortRef, Load] = {}

    def told(self, loads: Mapping[PortRef, Load]) -> dict[PortRef, Load]:
        """What to tell of these loads."""
        before = self._told
        self._told = {
            at: known if (known := before.get(at)) is not None and _steady(known, load) else load
            for at, load in loads.items()
        }
        return self._told


def _steady(told: Load, now: Load) -> bool:
    return not (told.tx_dropped or now.tx_dropped) and all(
        abs(old - new) <= STEADY_BPS and bool(old) == bool(new)
        for old, new in ((told.rx_bps, now.rx_bps), (told.tx_bps, now.tx_bps))
    )


class DropRule(NamedTuple):
    """A rule of one switch that drops frames; `key` tells it from others of the same cause."""

    cause: Cause
    key: bytes = b""


RULES_MAX = 256
"""Rules of one switch whose counters are kept: there is one for each cause, and a few for each coordinator."""


class RefusalMeter:
    """Adds up dropped frames by cause over all switches, though a rule's counter starts at 0 whenever the rule is put again,
    and ends with the rule."""

    def __init__(self) -> None:
        self._last: dict[int, Mapping[DropRule, int]] = {}
        self._parts: dict[int, dict[DropRule, int]] = {}  # of answers whose last part is still to come
        self.totals: dict[Cause, int] = dict.fromkeys((cause for cause in Cause if cause), 0)

    def read(self, dpid: int, counts: Mapping[DropRule, int], *, more: bool = False) -> dict[Cause, int]:
        """Takes new counters of a switch; returns the frames dropped since the last reading, for causes with any. `more`:
        further parts of this answer follow (7.3.5), and count together."""
        told = self._parts.setdefault(dpid, {})
        told.update(islice(counts.items(), RULES_MAX - len(told)))
        if more:
            return {}
        before, self._last[dpid] = self._last.get(dpid, {}), self._parts.pop(dpid)
        new: Counter[Cause] = Counter()
        for rule, count in told.items():
            new[rule.cause] += _grown(before.get(rule, 0), count)
        for cause, grown in (+new).items():
            self.totals[cause] += grown
        return dict(+new)

    def named(self) -> dict[str, int]:
        """The totals by the causes' names in lower case, as they are published."""
        return {cause.name.lower(): count for cause, count in self.totals.items()}

    def forget(self, dpid: int) -> None:
        """A switch has disconnected. It keeps its table meanwhile, and the rules that it has afterwards count on."""
        self._parts.pop(dpid, None)
