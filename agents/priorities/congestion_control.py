"""Baton's TCP congestion controls in the kernel, and the choice between them by a connection's mark. An edge: eBPF and /proc.

`CongestionControl` registers baton_dctcp and baton_mcp (agents/bpf/congestion.bpf.c, mcp.bpf.c). They belong to the kernel, not
to a network namespace: agents of several emulated hosts share them. The first agent registers the missing ones until it ends,
by itself or killed (before Linux 6.4 a killed agent leaves them to the next); other agents use them and do not remove them.
`configure` reaches MCP's settings in any case.

`Chooser` attaches the choice to a cgroup, version 2: connections of its processes with a deadline get baton_mcp, others
baton_dctcp (agents/bpf/chooser.bpf.c), whatever the process asked for. The choice ends with the process that attached it.
"""

from __future__ import annotations

import ipaddress
import struct
import sys
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from agents.bpf.build import object_path
from agents.priorities.marked_run import cgroup_root
from agents.priorities.mcp_model import McpSettings
from agents.queues.classifier import Address, packed
from ebpf.libbpf import BpfMap, BpfObject, loaded_map

DCTCP, MCP = "baton_dctcp", "baton_mcp"
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_SETTINGS_MAP, _EVENTS_MAP = "mcp_settings", "mcp_events"
_EVENT = struct.Struct("=QQQIIHHI16s16s")
_AF_INET = 2
_ZERO = bytes(4)


class Outcome(IntEnum):
    """How a flow with a deadline ended."""

    IN_TIME = 1
    LATE = 2
    GIVEN_UP = 3


@dataclass(frozen=True, slots=True)
class McpEnd:
    """A flow that baton_mcp no longer handles: acknowledged, past its deadline, or given up. `size_bytes` is as in the mark."""

    outcome: Outcome
    source: Address
    source_port: int
    target: Address
    target_port: int
    size_bytes: int
    remaining_bytes: int
    elapsed_us: int
    deadline_ms: int


def available() -> frozenset[str]:
    """The names that TCP_CONGESTION takes in this kernel now (a module that may still be loaded is not among them)."""
    return frozenset(AVAILABLE.read_text().split())


def configure(settings: McpSettings) -> bool:
    """Sets baton_mcp's settings, whichever process registered it, from each flow's next round trip. False if none did.

    Raises:
        BpfError: this process lacks the right.
    """
    if MCP not in available():
        return False
    with loaded_map(_SETTINGS_MAP, len(_ZERO), len(settings.encode())) as found:
        if found is None:
            return False
        found[_ZERO] = settings.encode()
    return True


class CongestionControl:
    """baton_dctcp and baton_mcp, registered at least until `close`. Connections that use one then keep it until they end."""

    def __init__(self, settings: McpSettings | None = None) -> None:
        """Registers those that no process has registered; baton_mcp with these settings.

        Raises:
            BuildError: a program cannot be compiled here; says what is missing.
            BpfError: the kernel refuses a program (it needs CONFIG_BPF_JIT and BTF), or this process lacks the right.
        """
        self._objects: dict[str, BpfObject] = {}
        self._held = ExitStack()
        wanted = (settings or McpSettings()).encode()
        try:
            self._register(DCTCP, "congestion", None)
            self._register(MCP, "mcp", wanted)
            self._settings = self._found(len(wanted))
        except BaseException:
            self.close()
            raise

    def _register(self, name: str, program: str, settings: bytes | None) -> None:
        if name in available():
            return
        loaded = BpfObject(object_path(program), name)
        try:
            if settings is not None:
                loaded.map(_SETTINGS_MAP, len(_ZERO), len(settings))[_ZERO] = settings
            loaded.attach_struct_ops(name)
        except BaseException:
            loaded.close()
            raise
        self._objects[name] = loaded

    def _found(self, value_bytes: int) -> BpfMap | None:
        """The map of MCP's settings: this process's own, or that of the process that registered baton_mcp."""
        if (loaded := self._objects.get(MCP)) is not None:
            return loaded.map(_SETTINGS_MAP, len(_ZERO), value_bytes)
        return self._held.enter_context(loaded_map(_SETTINGS_MAP, len(_ZERO), value_bytes))

    def configure(self, settings: McpSettings) -> bool:
        """As the function `configure`, with the map found at the start: later the agent has no right to search for it."""
        if self._settings is None:
            return False
        self._settings[_ZERO] = settings.encode()
        return True

    @property
    def owner(self) -> bool:
        """Whether this process registered one of them."""
        return bool(self._objects)

    def ends(self, take: Callable[[McpEnd], None]) -> tuple[int, Callable[[], None]] | None:
        """(descriptor to wait on, function that passes ended flows to `take`); None if another process registered MCP."""
        loaded = self._objects.get(MCP)
        return None if loaded is None else loaded.ring(_EVENTS_MAP, lambda record: take(_end_of(record)))

    def close(self) -> None:
        """Unregisters what this process registered. May be called again."""
        self._held.close()
        while self._objects:
            self._objects.popitem()[1].close()


class Chooser:
    """Chooses by mark for the connections of a cgroup, until `close` or the end of this process."""

    def __init__(self, cgroup: Path | None = None, *, unmarked: bool = True) -> None:
        """Starts to choose for connections that the cgroup's processes make, accept or mark from now on.

        Args:
            cgroup: a directory of cgroup version 2; None for the root: all processes of this machine.
            unmarked: whether connections without a mark get baton_dctcp; otherwise they keep what they have.

        Raises:
            NoCgroup: no cgroup version 2 is mounted.
            BuildError, BpfError: as `CongestionControl`.
        """
        where = cgroup_root() if cgroup is None else cgroup
        self._gated: set[bytes] = set()
        self._object: BpfObject | None = BpfObject(object_path("chooser"))
        try:
            self._object.map("unmarked", len(_ZERO), 4)[_ZERO] = int(unmarked).to_bytes(4, sys.byteorder)
            for program in ("choose", "choose_again"):
                self._object.attach_cgroup(program, where)
        except BaseException:
            self.close()
            raise

    def gate(self, addresses: Collection[Address]) -> None:
        """Sets all addresses behind a gate: connections to them that are made or marked from now on get baton_dctcp.

        MCP plans its rate over the whole deadline; a gate that is closed between slots breaks the plan, and MCP falls behind.
        """
        if self._object is None or (wanted := {packed(address) for address in addresses}) == self._gated:
            return
        gated = self._object.map("gated", 16, 1)
        for key in wanted - self._gated:
            gated[key] = b"\1"
        for key in self._gated - wanted:
            gated.remove(key)
        self._gated = wanted

    def close(self) -> None:
        """Ends the choice; connections keep their congestion control. May be called again."""
        if self._object is not None:
            self._object.close()
            self._object = None


def _end_of(record: bytes) -> McpEnd:
    size, remaining, elapsed, deadline, outcome, source_port, target_port, family, *ends = _EVENT.unpack_from(record)
    length = 4 if family == _AF_INET else 16
    source, target = (ipaddress.ip_address(end[:length]) for end in ends)
    return McpEnd(Outcome(outcome), source, source_port, target, target_port, size, remaining, elapsed, deadline)
