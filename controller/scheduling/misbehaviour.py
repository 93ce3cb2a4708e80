"""Which hosts do not keep to what was permitted, by what the switches counted. Pure: counts in, verdicts out.

A host can claim anything; the port that it is plugged into counts what it does. For each window of about a second:

* *Outside its slots*: a regulated host sent more than was permitted to it, plus what it sent to destinations that need no
  permission (no more of that than arrived there), plus an allowance for small flows, acknowledgements and control.
* *Slots that it does not use*: less than half of what was permitted to a host by credits crossed its port: it claims a backlog
  that it does not have, or never yields.
* *Bypass*: more was sent into a contended link (carried or dropped there) than hosts sent by permission, plus the same
  allowance: a host without an agent sends, or one whose agent does not enforce slots. Bytes that members sent outside their
  slots count even when the link was full, where they took the place of permitted bytes. The count includes the allowance.

A verdict needs `AFTER` bad windows in a row and is lifted after `CLEAR` good ones, so that a lost reading, a restart or an edge
of contention accuses no host. What an honest host can't avoid (lost directives, a late timer) is well within the thresholds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from protocol.units import COUNT_MAX

AFTER = 3
CLEAR = 10
ALLOWANCE = 0.08
"""The share of a link's capacity that may be sent without permission."""
USED = 0.5
"""A host that uses less than this share of what was permitted does not use its slots."""
LEAST = 0.02
"""The share of a link's capacity from which on permitted bytes show whether a host uses its slots."""


class HostWindow(NamedTuple):
    """One host in one window, in bytes."""

    name: str
    capacity: int
    """What its first link could have carried."""
    seen: int
    """What its switch port received."""
    permitted: int
    credited: int
    """The part of `permitted` that was by credits: a host gives unused credits back. It cannot give a rate back, so a host that
    uses little of its rate may be honest."""
    free: int
    """What it sent to destinations that need no permission, as far as it arrived there."""
    yields: int
    """How often it gave back a slot."""

    @property
    def outside(self) -> int:
        """What it sent without permission."""
        return max(0, self.seen - self.permitted - self.free)


class LinkWindow(NamedTuple):
    """One contended link in one window, in bytes."""

    name: str
    capacity: int
    seen: int
    dropped: int
    permitted: int
    """What was permitted across it, of each host no more than its port received."""
    outside: int = 0
    """What members sent outside their slots that may have crossed it."""


@dataclass(slots=True)
class Crossed:
    """What crossed a link while it was contended, in bytes since the coordinator's start."""

    regulated: int = 0
    uncoordinated: int = 0
    alarm: bool = False


class Finding(NamedTuple):
    """An event for the operator: a verdict, or that it was lifted."""

    severity: str
    text: str


@dataclass(slots=True)
class _Verdict:
    """One charge against one host or link."""

    bad: int = 0
    good: int = 0
    stands: bool = False
    line: str = ""

    def judge(self, line: str) -> bool:
        """Takes another window, with what was wrong in it (empty: nothing); returns whether the verdict changed."""
        if line:
            self.line, self.bad, self.good = line, self.bad + 1, 0
        else:
            self.bad, self.good = 0, self.good + 1
        before = self.stands
        self.stands = self.bad >= AFTER if not before else self.good < CLEAR
        return self.stands != before


class Misbehaviour:
    """The verdicts on hosts and links, window after window."""

    def __init__(self) -> None:
        self.crossed: dict[Hashable, Crossed] = {}
        """By link."""
        self._hosts: dict[int, dict[str, _Verdict]] = {}
        self._away: dict[int, tuple[int, dict[str, _Verdict]]] = {}
        """Of hosts that left: for how many windows they have been away, and what there was against them."""
        self._links: dict[Hashable, _Verdict] = {}

    def window(
        self, hosts: Mapping[int, HostWindow], links: Mapping[Hashable, LinkWindow], window_ns: int
    ) -> list[Finding]:
        """Another window: of every host that was regulated in all of it, and of every link that was contended in all of it."""
        found: list[Finding] = []
        away = ((node, windows + 1, verdicts) for node, (windows, verdicts) in self._away.items())
        self._away = {node: (windows, verdicts) for node, windows, verdicts in away if windows < CLEAR}
        for node, host in hosts.items():
            verdicts = self._hosts.setdefault(node, {"outside": _Verdict(), "unused": _Verdict()})
            for charge, line in (("outside", _outside(host, window_ns)), ("unused", _unused(host, window_ns, verdicts))):
                if verdicts[charge].judge(line):
                    found.append(_finding(host.name, verdicts[charge], "keeps to its slots again"))
        for link, counts in links.items():
            crossed, verdict = self.crossed.setdefault(link, Crossed()), self._links.setdefault(link, _Verdict())
            over = min(counts.seen, max(0, counts.seen + counts.dropped - counts.permitted, counts.outside))
            crossed.regulated = min(COUNT_MAX, crossed.regulated + counts.seen - over)
            crossed.uncoordinated = min(COUNT_MAX, crossed.uncoordinated + over)
            line = ""
            if over > ALLOWANCE * counts.capacity:
                line = f"{_mbps(over, window_ns)} of {_mbps(counts.seen, window_ns)} crosses it without permission"
            if verdict.judge(line):
                crossed.alarm = verdict.stands
                found.append(_finding(counts.name, verdict, "is crossed with permission again"))
        return found

    def lines(self, node: int) -> list[str]:
        """The verdicts that stand against a host, as lines."""
        return [verdict.line for verdict in self._hosts.get(node, {}).values() if verdict.stands]

    def suspects(self) -> frozenset[int]:
        """The hosts against which a verdict stands."""
        return frozenset(node for node in self._hosts if self.lines(node))

    def left(self, node: int) -> None:
        """A host left. What there was against it is forgotten after `CLEAR` windows: to leave and come back helps nobody."""
        if (verdicts := self._hosts.pop(node, None)) is not None:
            self._away[node] = 0, verdicts

    def came(self, node: int) -> None:
        """A host is a member, maybe again."""
        if (before := self._away.pop(node, None)) is not None:
            self._hosts[node] = before[1]

    def keep_links(self, links: Iterable[Hashable]) -> None:
        """Forgets verdicts on all other links, which are contended no more; the bytes that crossed them stay counted."""
        known = set(links)
        for link in [link for link in self._links if link not in known]:
            del self._links[link]
            self.crossed[link].alarm = False


def _outside(host: HostWindow, window_ns: int) -> str:
    if host.outside <= ALLOWANCE * host.capacity:
        return ""
    return (
        f"sends outside its slots: {_mbps(host.seen, window_ns)} at its port, {_mbps(host.permitted, window_ns)} permitted"
        + (f", {_mbps(host.free, window_ns)} where it may" if host.free else "")
    )


def _unused(host: HostWindow, window_ns: int, verdicts: Mapping[str, _Verdict]) -> str:
    # A suspect is granted little: that little must be used before the verdict is lifted.
    least = 0 if verdicts["unused"].stands else LEAST * host.capacity
    if host.credited <= least or host.seen >= USED * host.credited:
        return ""
    yields = f"{host.yields} yields" if host.yields else "nothing yielded"
    seen, permitted = _mbps(host.seen, window_ns), _mbps(host.credited, window_ns)
    return f"does not use its slots: {permitted} permitted, {seen} at its port, {yields}"


def _finding(name: str, verdict: _Verdict, again: str) -> Finding:
    return Finding("warning", f"{name}: {verdict.line}") if verdict.stands else Finding("info", f"{name} {again}")


def _mbps(size: int, window_ns: int) -> str:
    return f"{size * 8_000 / max(1, window_ns):.1f} Mbit/s"
