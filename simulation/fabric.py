"""Spine-leaf fabrics, and how long a flow takes on an idle one. Pure."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

SEGMENT, HEADERS = 1460, 42
"""Bytes of payload in a full packet, and of TCP, IPv4 and the link in front of it (simulation/program/wire.h)."""
FRAME = SEGMENT + HEADERS
_BITS = 8_000_000_000


def frames_bytes(size_bytes: int) -> int:
    """The bytes of a flow's frames, headers included."""
    return size_bytes + -(-size_bytes // SEGMENT) * HEADERS


@dataclass(frozen=True, slots=True)
class SpineLeaf:
    """A fabric: `leaves` switches with `hosts_per_leaf` hosts each, every leaf linked to every spine.

    Delays are one way, in ns: a host's link has its processing in it.

    Raises:
        ValueError: a number is out of its range; names it.
    """

    leaves: int = 9
    spines: int = 4
    hosts_per_leaf: int = 16
    host_bps: int = 10_000_000_000
    uplink_bps: int = 40_000_000_000
    host_delay_ns: int = 20_000
    uplink_delay_ns: int = 200

    def __post_init__(self) -> None:
        for name, least in (("leaves", 1), ("hosts_per_leaf", 1), ("spines", 1 if self.leaves > 1 else 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")
        if self.hosts < 2:
            raise ValueError("the fabric has one host; flows need two")
        for name in ("host_bps", "uplink_bps"):
            if not 1_000_000 <= getattr(self, name) <= 400_000_000_000:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 Mb/s to 400 Gb/s")
        for name in ("host_delay_ns", "uplink_delay_ns"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")

    @property
    def hosts(self) -> int:
        return self.leaves * self.hosts_per_leaf

    @property
    def rtt_ns(self) -> int:
        """A full packet's way across the spines and its acknowledgement's way back, on idle links."""
        far = (0, self.hosts - 1)
        return self.alone_ns(*far, SEGMENT) + self._arrivals_ns(*far, HEADERS)[-1]

    @property
    def pipe_packets(self) -> int:
        """The bandwidth-delay product of a host's link in full packets, rounded up."""
        return -(-self.rtt_ns * self.host_bps // (_BITS * FRAME))

    def alone_ns(self, source: int, target: int, size_bytes: int) -> int:
        """The time from a flow's start to the arrival of its last byte when nothing else is on the fabric and the sender never
        waits for an acknowledgement: the ideal that slowdowns refer to. Switches store and forward."""
        before = (size_bytes - 1) // SEGMENT
        frame = size_bytes - before * SEGMENT + HEADERS
        links = self._links(source, target)
        earlier = self._arrivals_ns(source, target, FRAME)
        slowest, arrived = 0, 0
        for at, (rate_bps, delay_ns) in enumerate(links):
            slowest = max(slowest, FRAME * _BITS // rate_bps)
            free = earlier[at] - delay_ns + (before - 1) * slowest if before else 0
            arrived = max(arrived, free) + frame * _BITS // rate_bps + delay_ns
        return arrived

    def _links(self, source: int, target: int) -> list[tuple[int, int]]:
        """The rate and the delay of each link on the way."""
        host, uplink = (self.host_bps, self.host_delay_ns), (self.uplink_bps, self.uplink_delay_ns)
        return [host, host] if source // self.hosts_per_leaf == target // self.hosts_per_leaf else [host, uplink, uplink, host]

    def _arrivals_ns(self, source: int, target: int, frame_bytes: int) -> list[int]:
        """When one packet has come to the end of each link on its way."""
        times = (frame_bytes * _BITS // rate_bps + delay_ns for rate_bps, delay_ns in self._links(source, target))
        return list(itertools.accumulate(times))


SIZES = {
    "small": SpineLeaf(leaves=2, spines=2, hosts_per_leaf=4, uplink_bps=20_000_000_000),
    "medium": SpineLeaf(leaves=4, spines=2, hosts_per_leaf=8),
    "paper": SpineLeaf(),
}
"""Fabrics by name; in each a leaf's uplinks together carry as much as its hosts' links. "paper" has 144 hosts."""
