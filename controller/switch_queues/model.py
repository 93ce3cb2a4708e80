"""The queues of every switch port: eight strict priorities by DSCP, one marking threshold, a finite shared buffer. Pure.

Queue 0 is served first (Karuna, SIGCOMM 2016, section 4): DSCP 7 is queue 0, DSCP 0 queue 7, as agents/priorities/tagger.py
writes them; any other DSCP is queue 7. Above the data are ARP, ICMP, LLDP and spanning tree, and above those Baton's own frames
(EtherType 0x88B5), each with a small buffer of its own.

A packet that may be marked (ECT, RFC 3168) gets CE when the waiting bytes, itself included, exceed the threshold: the bytes of
the whole port, which leaves room in shallow buffers and lets a backlog of low priority slow down the senders that starve it
(Karuna, section 5); or the bytes of its own queue. A packet that may not be marked passes: like any other, it is dropped only
when the buffer has no room.

The buffer is divided as switches with shared memory divide it. A queue has `reserved` packets to itself; of what is not
reserved it may hold `share` times the free part (dynamic threshold: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998). Each queue
has its own share, as on switches: n queues with the share a that fill at once leave 1/(1 + n a) of it free. So queues that are
served late have a small share, which leaves room for a burst, and those that are served first a large one, to use that room: it
is free again at once.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

from protocol.units import FRAME_BYTES
from topology.units import parse_rate

Number = TypeVar("Number", int, float)

QUEUES = 8
DSCPS = 64
BAND_PACKETS = 64
"""The buffer of the control band, and of the network band (ARP, ICMP, LLDP, spanning tree)."""
MAX_PACKETS = 1_000_000
MAX_THRESHOLD_BYTES = 2**31 - 1
MIN_RATE_BPS, MAX_RATE_BPS = 1_000_000, 100_000_000_000
LOWEST = QUEUES - 1
BY_PRIORITY = tuple(LOWEST - dscp if dscp < QUEUES else LOWEST for dscp in range(DSCPS))
"""DSCP 7 to 0 are queues 0 to 7."""
LEAST_SHARE, MOST_SHARE = 2**-7, 2**7
LARGE_SHARE, SMALL_SHARE = 8.0, 0.5
"""Eight is the default of switches (SONiC's dynamic_th 3). With a half, a queue alone gets a third of what is shared, and six
such queues leave a quarter of it free."""
FIRST_QUEUES = 2
"""Those with the large share: type 1 and acknowledgements, and the first bytes of all other flows."""
FIRST_RESERVED = 8
"""Packets of the first queue alone: a lost handshake costs a second."""


def each_queue(values: Sequence[Number]) -> tuple[Number, ...]:
    """Values of all queues, the first first, from one to eight values, of which the last counts for all that follow."""
    return tuple(values) + (values[-1],) * (QUEUES - len(values))


def shares(first: int) -> tuple[float, ...]:
    """The large share for so many queues that are served first, the small one for those below."""
    return (LARGE_SHARE,) * first + (SMALL_SHARE,) * (QUEUES - first)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchQueues:
    """The same for every port of a fabric. Raises ValueError, with the field and the remedy, for impossible values."""

    buffer_packets: int = 100
    """The buffer of all data queues of a port together."""
    share: tuple[float, ...] | None = shares(FIRST_QUEUES)
    """Of each queue. None: a queue may take all that is not reserved for others."""
    reserved: tuple[int, ...] = each_queue((FIRST_RESERVED, 0))
    """Packets of each queue, which are part of the buffer and which no other queue takes."""
    marking_threshold_bytes: int | None = 30_000
    """Karuna's and DCTCP's 20 packets, for 1 Gb/s and less; 65 packets at 10 Gb/s. None: no packet is marked."""
    per_queue: bool = False
    """Whether the threshold applies to each queue, not to the port."""
    dscp_to_queue: tuple[int, ...] = BY_PRIORITY
    """The queue of each of the 64 DSCPs."""

    def __post_init__(self) -> None:
        if not 1 <= self.buffer_packets <= MAX_PACKETS:
            raise ValueError(f"buffer_packets: {self.buffer_packets} is not from 1 to {MAX_PACKETS}; write one such as 100")
        self._check_division()
        threshold = self.marking_threshold_bytes
        if threshold is not None and not FRAME_BYTES <= threshold <= MAX_THRESHOLD_BYTES:
            raise ValueError(
                f"marking_threshold_bytes: {threshold} is not from one frame ({FRAME_BYTES}) to {MAX_THRESHOLD_BYTES}; "
                "write a size such as 30KB, or none"
            )
        if len(self.dscp_to_queue) != DSCPS or not all(0 <= queue < QUEUES for queue in self.dscp_to_queue):
            raise ValueError(f"dscp_to_queue: write {DSCPS} queues from 0 (first) to {LOWEST}, one for each DSCP")

    def _check_division(self) -> None:
        """Raises ValueError: shares or reserved packets are not eight, out of bounds, or more than the buffer."""
        for name, values in (("share", self.share), ("reserved", self.reserved)):
            if values is not None and len(values) != QUEUES:
                raise ValueError(f"{name}: {len(values)} values; write {QUEUES}, one for each queue, the first first")
        for share in self.share or ():
            if not LEAST_SHARE <= share <= MOST_SHARE:
                raise ValueError(f"share: {share:g} is not from 1/128 to 128; write numbers such as 8 or 0.5, or none")
        if min(self.reserved) < 0 or sum(self.reserved) > self.buffer_packets:
            shown = ", ".join(map(str, self.reserved))
            raise ValueError(f"reserved: {shown} are not packets of a buffer of {self.buffer_packets}; write fewer, such as 0")

    @property
    def used(self) -> tuple[int, ...]:
        """The queues that some DSCP leads to."""
        return tuple(sorted(set(self.dscp_to_queue)))

    @property
    def shared_packets(self) -> int:
        """The part of the buffer that is nobody's own."""
        return self.buffer_packets - sum(self.reserved)

    def alike(self) -> Self:
        """The same with the large share for every queue and nothing reserved: where one queue has all traffic."""
        return dataclasses.replace(self, share=shares(QUEUES), reserved=(0,) * QUEUES)

    def admits(self, queue: int, lengths: Sequence[int]) -> bool:
        """Whether a packet for a queue has room, by the lengths of all eight; bpf/switch_queues.bpf.c does the same."""
        beyond = lengths[queue] - self.reserved[queue]
        if beyond < 0:
            return True
        free = self.shared_packets - sum(max(0, held - own) for held, own in zip(lengths, self.reserved, strict=True))
        return free > 0 and (self.share is None or beyond < self.share[queue] * free)


def mapping(pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """A `dscp_to_queue` from pairs (DSCP, queue); every other DSCP leads to the lowest queue. Raises ValueError."""
    queues = [LOWEST] * DSCPS
    for dscp, queue in pairs:
        if not 0 <= dscp < DSCPS:
            raise ValueError(f"dscp_to_queue: {dscp} is no DSCP; write 0 to {DSCPS - 1}")
        queues[dscp] = queue
    return tuple(queues)


@dataclass(frozen=True, slots=True)
class PortQueues:
    """One port: its rate, and the queues that all ports have. Raises ValueError as `SwitchQueues`."""

    rate_bps: int
    queues: SwitchQueues = field(default_factory=SwitchQueues)

    def __post_init__(self) -> None:
        if not MIN_RATE_BPS <= self.rate_bps <= MAX_RATE_BPS:
            raise ValueError(f"rate: {self.rate_bps} bit/s is not from 1Mbit to 100Gbit; write the link's rate, such as 1Gbit")


class QueueCounters(NamedTuple):
    """The packets that one data queue has sent, dropped and marked, and those that wait in it now."""

    sent_packets: int
    sent_bytes: int
    drops: int
    marks: int
    backlog_packets: int

    def since(self, before: QueueCounters) -> QueueCounters:
        """What was counted since an earlier reading; the packets that wait are those of now."""
        return QueueCounters(
            self.sent_packets - before.sent_packets,
            self.sent_bytes - before.sent_bytes,
            self.drops - before.drops,
            self.marks - before.marks,
            self.backlog_packets,
        )


class NamedPort(NamedTuple):
    """An interface, or a pattern such as s1-eth*, and its rate."""

    pattern: str
    rate_bps: int


def named_ports(value: object) -> tuple[NamedPort, ...]:
    """The ports of a configuration's mapping from interfaces or patterns to rates. Raises ValueError."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{value!r} names no port")
    return tuple(NamedPort(str(pattern), PortQueues(parse_rate(rate)).rate_bps) for pattern, rate in value.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperSettings:
    """The settings of the process that keeps this machine's switch ports."""

    ports: tuple[NamedPort, ...]
    queues: SwitchQueues

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote. Raises ValueError."""
        try:
            fields: dict[str, Any] = json.loads(text)
            queues: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in fields["queues"].items()
            }
            return cls(ports=tuple(NamedPort(*port) for port in fields["ports"]), queues=SwitchQueues(**queues))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"switch queues: {error!r} in the settings") from None
