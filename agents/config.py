"""How one agent is run, as values."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from protocol.bodies.text import packed_text

NAME_BYTES_MAX = 255


REALTIME = 20
"""The SCHED_FIFO priority of an agent that may have one."""
REALTIME_PROCESSORS = 4


def usual_realtime(processors: int) -> int | None:
    """An agent's SCHED_FIFO priority unless its user names one. None where there are few processors: there an agent would keep
    others from running, such as a switch in user space that forwards its packets."""
    return REALTIME if processors >= REALTIME_PROCESSORS else None


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How one agent is run: the interface towards the fabric, its link rate (bit/s), the file that this host was enrolled
    with, and addresses that are announced
    besides those that the agent finds."""

    interface: str
    rate_bps: int
    key_file: Path
    rate_source: str = "--rate"
    """Who says so, for the log: "--rate", or "the link"."""
    name: str = ""
    """This host's; empty: the one that it was enrolled by."""
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    gate: str = "auto"
    run_dir: Path = Path("/run/baton")
    take_over: bool = False
    realtime: int | None = None
    """SCHED_FIFO priority; None: an ordinary process."""
    statistics: Path | None = None
    priorities: bool = False
    cgroup: Path | None = None
    guests: int | None = None
    """The UDP port at which guests behind the bridge may ask for marks, with `priorities`; 0: only the operator marks their
    flows; None: nobody does."""
    pfc: str = "off"
    """What pauses classes of queues when the link partner asks for it: "software" (the agent), "nic", or "off" (nothing)."""
    priority_tag: int | None = None
    """The 802.1p priority in a tag of every control frame; None: no tag."""
    busy_poll: bool = False
    """The agent polls and never sleeps: it does its work microseconds after it is due, at the price of a processor."""

    def __post_init__(self) -> None:
        """Raises ValueError: the name cannot be registered; says what to do."""
        try:
            packed_text("name", self.name, NAME_BYTES_MAX)
        except ValueError as error:
            raise ValueError(f"{error}; give this host another name by --name") from None
