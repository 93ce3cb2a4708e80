"""The rights of a child process: its user, capabilities, sockets and limits, and the command that gives it no others. Pure.

`controller.processes.confine` carries them out before the program's first instruction.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

INTERNET = ("AF_UNIX", "AF_INET", "AF_INET6")
NETLINK = (*INTERNET, "AF_NETLINK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What one process may do."""

    user: int | None = None
    """Its uid and, as `group`, its gid, without further groups; None: those of the process that starts it."""
    group: int | None = None
    capabilities: tuple[str, ...] = ()
    """By their names without CAP_, in lower case; only for uid 0. Any other user has none."""
    families: tuple[str, ...] = INTERNET
    """Of the sockets that it may make."""
    bpf: bool = False
    """Whether it may load eBPF programs."""
    realtime: int = 0
    """The highest real-time priority that it may take; above 0 it may also lock its memory."""
    packet_sockets: int = 0
    """How many packet sockets it is given, not bound yet, in BATON_LINK: it can make none."""
    netns: str | None = None
    """The network namespace of these sockets, by name or path."""
    kept_file: str | None = None
    """A file that it is given open, to read and write, in BATON_KEPT: it may reach none in the directory."""

    def command(self, program: Sequence[str]) -> list[str]:
        """The command that runs a program with these rights and no others."""
        return [sys.executable, "-S", "-m", "controller.processes.confine", json.dumps(dataclasses.asdict(self)), *program]
