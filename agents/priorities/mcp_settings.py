"""MCP's settings (Karuna, SIGCOMM 2016, section 3); agents/bpf/mcp.h derives its arithmetic. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

ONE = 1 << 10
"""Fractions are in 1/ONE for the kernel."""
MOST_LINK_BPS = 100_000_000_000
_SETTINGS = struct.Struct("=QIIIIII")


class Termination(IntEnum):
    """The scheme by which MCP gives a flow up."""

    BY_BACKLOG = 1
    BY_RATE = 2
    NEVER = 3


@dataclass(frozen=True, slots=True)
class McpSettings:
    """MCP's settings; one set for the whole kernel.

    Args:
        link_bps: C, the rate of the slowest link on the path.
        marking_packets: K, the queue length at which switches begin to mark.
        kappa: the part of the step to the balance that a flow makes each round trip.
        aim: the part of the deadline by which all data are to be acknowledged.
        termination: the scheme by which a flow is given up.
        multiple: scheme 1 gives a flow up when its backlog is above this multiple of C tau + K.
        crowd_packets: where flows with deadlines have a queue of their own, the length from which they yield; 0: they share
            it.

    Raises:
        ValueError: a setting is out of its range; names it.
    """

    link_bps: int = 1_000_000_000
    marking_packets: int = 20
    kappa: float = 0.25
    aim: float = 0.9375
    termination: Termination = Termination.NEVER
    multiple: float = 3.0
    crowd_packets: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("link_bps", self.link_bps, 100_000, MOST_LINK_BPS),
            ("marking_packets", self.marking_packets, 1, 10_000),
            ("kappa", self.kappa, 1 / ONE, 0.5),
            ("aim", self.aim, 0.1, 1.0),
            ("multiple", self.multiple, 1 / ONE, 1000),
            ("crowd_packets", self.crowd_packets, 0, 10_000),
        ):
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}; give {least:g} to {most:g}")
        if self.termination not in list(Termination):
            raise ValueError(f"termination is {self.termination}; give 1 (by backlog), 2 (by rate) or 3 (never)")

    @property
    def link_rate(self) -> int:
        """C in bytes/s."""
        return self.link_bps // 8

    @property
    def path(self) -> tuple[int, int, int]:
        """What differs from path to path: C in bytes/s, K and the crowd in packets."""
        return self.link_rate, self.marking_packets, self.crowd_packets

    def encode(self) -> bytes:
        """struct mcp_settings."""
        fractions = (round(value * ONE) for value in (self.kappa, self.aim))
        return _SETTINGS.pack(
            self.link_rate, self.marking_packets, *fractions, self.termination, round(self.multiple * ONE), self.crowd_packets
        )
