"""A fake OpenFlow switch and network: "would this frame leave by that port?", asked of tables as plain
values.

Follows OpenFlow 1.3, 5.1 to 5.6, as far as the tables use it: highest priority wins, goto goes forward,
apply-actions act at once, a group of type ALL sends one copy by each bucket, and nothing leaves by the port
it came in, unless the output is IN_PORT.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from controller.openflow.intake.hosts import PortRef
from controller.openflow.tables.flowtable import IN_PORT, Cause, Flow, Match, Table
from controller.openflow.tables.forwarding import Forwarding
from controller.openflow.view import Link

LIMIT = 10_000  # copies of one frame: more is a storm


def tables(*view: Any, **options: Any) -> dict[int, Table]:  # noqa: ANN401 -- those of `Forwarding.tables`
    """The tables of switches for which none were made before."""
    return Forwarding().tables(*view, **options)


class Frame(NamedTuple):
    """The header fields that tables match on."""

    src: str
    dst: str
    kind: int = 0x0800
    arp_spa: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What one switch does with a frame: ports and queue it leaves by, bytes for the controller, why it was dropped."""

    ports: frozenset[int]
    copied: bool
    cause: Cause
    queue: int | None = None


def _bits(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def _mac_matches(pattern: str | None, mac: str) -> bool:
    if pattern is None:
        return True
    address, _, mask = pattern.partition("/")
    bits = _bits(mask) if mask else (1 << 48) - 1
    return _bits(address) & bits == _bits(mac) & bits


def _matches(match: Match, port: int, frame: Frame) -> bool:
    return (
        match.in_port in (None, port)
        and match.eth_type in (None, frame.kind)
        and _mac_matches(match.eth_src, frame.src)
        and _mac_matches(match.eth_dst, frame.dst)
        and match.arp_spa in (None, frame.arp_spa)
    )


def push(table: Table, port: int, frame: Frame) -> Verdict:
    """Push a frame through one switch's tables."""
    outputs: set[int] = set()
    copied, returned, number, queue = False, False, 0, None
    while True:
        entries = [f for f in table.flows.values() if f.table == number and _matches(f.match, port, frame)]
        if not entries:
            return Verdict(frozenset(outputs), copied, Cause.NONE, queue)
        entry: Flow = max(entries, key=lambda flow: flow.priority)
        rivals = [flow for flow in entries if flow.priority == entry.priority]
        assert len(rivals) == 1, f"ambiguous: {rivals}"
        copied = copied or entry.copy_bytes is not None
        queue = entry.queue if entry.queue is not None else queue
        if entry.output is not None:
            returned = returned or entry.output == IN_PORT
            outputs.add(entry.output)
        if entry.group is not None:
            outputs |= table.groups[entry.group]
        if entry.goto is None:
            back = {port} if returned else set()
            return Verdict(frozenset(outputs - {port, IN_PORT} | back), copied, entry.cause, queue)
        assert entry.goto > number
        number = entry.goto


class FakeNetwork:
    """Switches with their tables, joined by links."""

    def __init__(self, tables: Mapping[int, Table], links: Iterable[Link]) -> None:
        self.tables = tables
        self._far: dict[PortRef, PortRef] = {}
        for link in links:
            self._far[link.a], self._far[link.b] = link.b, link.a

    def send(self, at: PortRef, frame: Frame) -> Counter[PortRef]:
        """Where the copies of a frame that enters at `at` leave the network, and how many of them at each
        port.
        """
        left: Counter[PortRef] = Counter()
        queue = deque([at])
        for _ in range(LIMIT):
            if not queue:
                return left
            here = queue.popleft()
            for number in push(self.tables[here.dpid], here.number, frame).ports:
                out = PortRef(here.dpid, number)
                far = self._far.get(out)
                if far is None:
                    left[out] += 1
                elif far.dpid in self.tables:
                    queue.append(far)
        raise AssertionError(f"storm: {frame} sent at {at} is copied for ever")
