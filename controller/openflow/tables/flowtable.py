"""OpenFlow tables as plain values, and the changes that make one of another.

Pure: nothing here knows a datapath, a socket or a framework. `controller/openflow/codec.py` turns these values into
OpenFlow 1.3 messages; `tests/unit/controller/openflow/fake_of_table.py` pushes packets through them.
MAC addresses are lower-case colon notation; ports are OpenFlow port numbers of one switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

IN_PORT = 0xFFFFFFF8  # OFPP_IN_PORT: back by the port that the frame came in by
NO_LIMIT = 0xFFFF  # OFPCML_NO_BUFFER: the whole frame goes to the controller


class Cause(IntEnum):
    """Why a rule drops a frame; the flow's cookie carries it, so that counters can be read by cause.

    The high bit marks the rules whose counters are polled.
    """

    NONE = 0
    FORGED_COORDINATOR = 0x8001
    CONTROL_OFF_PATH = 0x8002
    BLOCKED_PORT = 0x8003


class Match(NamedTuple):
    """Fields of an OpenFlow match; None is a wildcard. A MAC may carry a mask: "address/mask"."""

    in_port: int | None = None
    eth_type: int | None = None
    eth_src: str | None = None
    eth_dst: str | None = None
    arp_spa: str | None = None


class Flow(NamedTuple):
    """One flow entry. Its actions, in this order: copy to the controller, set the queue, output, group, go to a later table.

    `copy_bytes` is how much of the frame the controller gets (None: no copy). `queue` is the queue of the port by which the
    frame leaves in the end (None: the port's own choice). An entry without actions drops the frame.
    """

    table: int
    priority: int
    match: Match
    output: int | None = None
    group: int | None = None
    copy_bytes: int | None = None
    goto: int | None = None
    idle_s: int = 0
    cause: Cause = Cause.NONE
    queue: int | None = None

    @property
    def key(self) -> FlowKey:
        """What identifies an entry in a switch (OpenFlow 1.3, 6.4)."""
        return FlowKey(self.table, self.priority, self.match)


class FlowKey(NamedTuple):
    """Table, priority and match: two entries of one switch never share all three."""

    table: int
    priority: int
    match: Match


Ports = frozenset[int]


@dataclass(slots=True)
class Table:
    """The wanted content of one switch: its flow entries, and its groups of type ALL as sets of output ports."""

    flows: dict[FlowKey, Flow] = field(default_factory=dict)
    groups: dict[int, Ports] = field(default_factory=dict)

    def add(self, *flows: Flow) -> None:
        """Adds entries; a later entry with the same key replaces the earlier one, as in a switch."""
        for flow in flows:
            self.flows[flow.key] = flow

    def without(self, key: FlowKey) -> Table:
        """Another table, which lacks this entry."""
        flows = self.flows.copy()
        flows.pop(key, None)
        return Table(flows, self.groups)


@dataclass(frozen=True, slots=True)
class Change:
    """What to send to one switch: groups first (flows refer to them), then removals, then new or changed entries."""

    groups: Mapping[int, Ports]
    remove: tuple[FlowKey, ...]
    put: tuple[Flow, ...]

    def __bool__(self) -> bool:
        return bool(self.groups or self.remove or self.put)


def diff(old: Table, new: Table) -> Change:
    """The smallest change that makes `new` of `old`. A changed entry overwrites the old one, which is never removed first.

    A group that `new` lacks stays in the switch: deleting a group also deletes the flows that refer to it.
    """
    return Change(
        groups={number: ports for number, ports in new.groups.items() if old.groups.get(number) != ports},
        remove=tuple(key for key in old.flows if key not in new.flows),
        put=tuple(flow for key, flow in new.flows.items() if old.flows.get(key) != flow),
    )


def pieces(change: Change, size: int) -> Iterator[Change]:
    """The same change in parts of at most `size` groups, removals or entries each, in order."""
    groups = list(change.groups.items())
    for at in range(0, len(groups), size):
        yield Change(dict(groups[at : at + size]), (), ())
    for at in range(0, len(change.remove), size):
        yield Change({}, change.remove[at : at + size], ())
    for at in range(0, len(change.put), size):
        yield Change({}, (), change.put[at : at + size])


def without_ports(table: Table, ports: Iterable[int]) -> Table:
    """`table` with these ports closed: it drops what enters by them, and does not flood by them.

    Entries that send to one destination stay: the switch at the other end of the link drops their frames.
    """
    closed = frozenset(ports)
    return Table(
        flows={key: flow for key, flow in table.flows.items() if key.match.in_port not in closed},
        groups={number: members - closed for number, members in table.groups.items()},
    )
