"""How one agent is run, as values. The host's name is asked for where none is given."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How one agent is run: the interface towards the fabric, its link rate (bit/s), the key, and who lives behind it."""

    interface: str
    rate_bps: int
    key_file: Path
    name: str = field(default_factory=socket.gethostname)
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    gate: str = "auto"
    run_dir: Path = Path("/run/baton")
    take_over: bool = False
    realtime: int | None = 20
    statistics: Path | None = None
    priorities: bool = False
    cgroup: Path | None = None
    pfc: str = "off"
    """Who pauses classes of queues when the link partner asks for it: "software" (the agent), "nic" or "off" (nobody)."""
    busy_poll: bool = False
    """Never sleeps: whatever is due is done microseconds later, for the price of a processor."""
