"""Baton's TCP congestion controls in the kernel, and the choice between them by a connection's mark. An edge: eBPF and /proc.

`CongestionControl` registers baton_dctcp and baton_mcp (agents/bpf/congestion.bpf.c, mcp.bpf.c). They belong to the kernel, not
to a network namespace: agents of several emulated hosts share them. The first agent registers the missing ones; others hold
them, too, and the last that ends, by itself or killed, removes them. Before Linux 6.4 nobody can hold what another registered:
they go with the first agent (a killed one leaves them to the next). `configure` reaches MCP's settings in any case.

A kernel without struct_ops (it has no JIT, as in virtual time) cannot register them. There the kernel's own dctcp takes
baton_dctcp's place, and MCP is a program of callbacks at a cgroup that sets the pacing rate of dctcp's connections
(agents/bpf/mcp_callbacks.bpf.c). BATON_MCP=sock_ops in the environment chooses this way where the kernel has both.

`Chooser` attaches the choice to a cgroup, version 2: connections of its processes with a deadline get baton_mcp, others
baton_dctcp (agents/bpf/chooser.bpf.c), whatever the process asked for. The choice ends with the process that attached it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import struct
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path

from agents.bpf.build import object_path
from agents.kernel.probe import has_congestion_control, has_struct_ops
from agents.priorities.marked_run import cgroup_root
from agents.priorities.mcp_settings import McpSettings
from agents.queues.classifier import Address, packed
from ebpf.libbpf import BpfError, BpfMap, BpfObject, loaded_map, struct_ops_link

DCTCP, MCP = "baton_dctcp", "baton_mcp"
KERNEL_DCTCP, KERNEL_RENO = "dctcp", "reno"
FORCED = "BATON_MCP"
"""In the environment: struct_ops or sock_ops, the way to have MCP; not set: struct_ops if the kernel has it."""
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_SETTINGS_MAP, _EVENTS_MAP, _PATHS_MAP = "mcp_settings", "mcp_events", "mcp_paths"
_PATH = struct.Struct("=QII")
MOST_PATHS = 16_384
"""Addresses whose path differs from the usual one, as in agents/bpf/mcp_flow.h."""
_EVENT = struct.Struct("=QQQIIHHI16s16s")
_CHOICE = struct.Struct("=I16s16s")
_GATED = ("gated", 16, 1)
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


class Way(Enum):
    """How this kernel has MCP."""

    STRUCT_OPS = "struct_ops"
    SOCK_OPS = "sock_ops"


def way() -> Way:
    """The way that `FORCED` names, or else the best of this kernel.

    Raises:
        BpfError: `FORCED` names none.
    """
    forced = os.environ.get(FORCED)
    if forced is None:
        return Way.STRUCT_OPS if has_struct_ops() else Way.SOCK_OPS
    try:
        return Way(forced)
    except ValueError:
        raise BpfError(0, f"{FORCED} is {forced!r}; write struct_ops or sock_ops, or leave it out") from None


class CongestionControl:
    """DCTCP and MCP in this kernel, at least until `close`. Connections that use one then keep it until they end.

    Attributes:
        way: how the kernel has MCP.
        dctcp: the name of DCTCP for TCP_CONGESTION.
        mcp: the same of MCP; where callbacks make it, the one whose connections they pace: the kernel's dctcp, or its reno if
            it has no dctcp (baton_dctcp keeps a threshold of slow start of its own, which callbacks cannot set).
    """

    def __init__(self, settings: McpSettings | None = None, cgroup: Path | None = None, *, mcp: bool = True) -> None:
        """Registers what no process has registered; MCP with these settings.

        Args:
            cgroup: the processes whose flows with deadlines MCP's callbacks handle (None: all); baton_mcp does not need it.
            mcp: whether to have MCP, too.

        Raises:
            BuildError: a program cannot be compiled here; says what is missing.
            BpfError: the kernel refuses a program (it needs BTF), has no DCTCP, or this process lacks the right.
            NoCgroup: MCP needs a cgroup version 2 here, and none is mounted.
        """
        self._objects: dict[str, BpfObject] = {}
        self._held = ExitStack()
        self._names: list[str] = []
        """Those that this process or another has registered, for this one to use."""
        self._settings: BpfMap | None = None
        self._paths: BpfMap | None = None
        self._known_paths: dict[bytes, bytes] = {}
        self.way = way()
        self.dctcp = KERNEL_DCTCP if self.way is Way.SOCK_OPS and has_congestion_control(KERNEL_DCTCP) else DCTCP
        self.mcp = MCP if self.way is Way.STRUCT_OPS else KERNEL_DCTCP if self.dctcp == KERNEL_DCTCP else KERNEL_RENO
        wanted = (settings or McpSettings()).encode()
        try:
            if self.dctcp == DCTCP:
                if self.way is Way.SOCK_OPS and not has_struct_ops():
                    raise BpfError(0, "this kernel has neither dctcp nor struct_ops: modprobe tcp_dctcp")
                self._register(DCTCP, "congestion", None)
            if mcp and self.way is Way.STRUCT_OPS:
                self._register(MCP, "mcp", wanted)
                self._settings = self._found(_SETTINGS_MAP, len(_ZERO), len(wanted))
                self._paths = self._found(_PATHS_MAP, 16, _PATH.size)
            elif mcp:
                self._settings = self._attach(cgroup_root() if cgroup is None else cgroup, wanted)
        except BaseException:
            self.close()
            raise

    def _register(self, name: str, program: str, settings: bytes | None) -> None:
        self._names.append(name)
        if name in available():
            self._hold(name)
            return
        loaded = BpfObject(object_path(program), name)
        try:
            if settings is not None:
                loaded.map(_SETTINGS_MAP, len(_ZERO), len(settings))[_ZERO] = settings
            loaded.attach_struct_ops(name)
        except BaseException as error:
            loaded.close()
            if isinstance(error, BpfError) and error.errno == errno.EEXIST:
                self._hold(name)  # another process did so since we looked: two agents that start together
                return
            raise
        self._objects[name] = loaded

    def _hold(self, name: str) -> None:
        """Keeps what another process registered, until `close`, whatever becomes of that process."""
        if (link := struct_ops_link(name)) is not None:
            self._held.callback(os.close, link)

    def gone(self) -> list[str]:
        """The names that nobody registers any more: new connections of those who ask for one keep what they have."""
        present = available()
        return [name for name in self._names if name not in present]

    def _attach(self, cgroup: Path, settings: bytes) -> BpfMap:
        """Of several processes with callbacks, the one that attached first handles a connection, with its settings."""
        loaded = self._objects[MCP] = BpfObject(object_path("mcp_callbacks"))
        held = loaded.map(_SETTINGS_MAP, len(_ZERO), len(settings))
        held[_ZERO] = settings
        self._paths = loaded.map(_PATHS_MAP, 16, _PATH.size)
        loaded.attach_cgroup("mcp_callbacks", cgroup)
        return held

    def _found(self, name: str, key_bytes: int, value_bytes: int) -> BpfMap | None:
        """A map of MCP's: this process's own, or that of the process that registered baton_mcp."""
        if (loaded := self._objects.get(MCP)) is not None:
            return loaded.map(name, key_bytes, value_bytes)
        return self._held.enter_context(loaded_map(name, key_bytes, value_bytes))

    def configure(self, settings: McpSettings) -> bool:
        """As the function `configure`, with the map found at the start: later the agent has no right to search for it."""
        if self._settings is None:
            return False
        self._settings[_ZERO] = settings.encode()
        return True

    def set_paths(self, paths: Mapping[Address, McpSettings]) -> int:
        """Sets the addresses for whose flows other settings (C, K, the crowd) count than the common ones; full state.

        Returns how many of them there was no room for: to those MCP takes the common settings.
        """
        if self._paths is None:
            return len(paths)
        every = ((packed(address), _PATH.pack(*settings.path)) for address, settings in paths.items())
        wanted = dict(list(every)[:MOST_PATHS])
        for key in self._known_paths.keys() - wanted.keys():
            self._paths.remove(key)
        for key, value in wanted.items():
            if self._known_paths.get(key) != value:
                self._paths[key] = value
        self._known_paths = wanted
        return len(paths) - len(wanted)

    @property
    def owner(self) -> bool:
        """Whether this process registered one of them."""
        return bool(self._objects)

    def ends(self, take: Callable[[McpEnd], None]) -> tuple[int, Callable[[], None]] | None:
        """(descriptor to wait on, function that passes ended flows to `take`); None if another process registered MCP."""
        loaded = self._objects.get(MCP)
        return None if loaded is None else loaded.ring(_EVENTS_MAP, lambda record: take(_end_of(record)))

    def gates(self) -> BpfMap | None:
        """The addresses behind a gate, for MCP's callbacks; None: the choice of baton_dctcp there is enough."""
        return self._objects[MCP].map(*_GATED) if self.way is Way.SOCK_OPS and MCP in self._objects else None

    def close(self) -> None:
        """Removes what this process registered. May be called again."""
        self._settings = self._paths = None
        self._held.close()
        while self._objects:
            self._objects.popitem()[1].close()


class Chooser:
    """Chooses by mark for the connections of a cgroup, until `close` or the end of this process."""

    def __init__(
        self, cgroup: Path | None = None, *, unmarked: bool = True, control: CongestionControl | None = None
    ) -> None:
        """Starts to choose for connections that the cgroup's processes make, accept or mark from now on.

        Args:
            cgroup: a directory of cgroup version 2; None for the root: all processes of this machine.
            unmarked: whether connections without a mark get DCTCP; otherwise they keep what they have.
            control: what to choose from; None: baton_mcp and baton_dctcp.

        Raises:
            NoCgroup: no cgroup version 2 is mounted.
            BuildError, BpfError: as `CongestionControl`.
        """
        where = cgroup_root() if cgroup is None else cgroup
        mcp, dctcp = (MCP, DCTCP) if control is None else (control.mcp, control.dctcp)
        self._gated: set[bytes] = set()
        self._gates: list[BpfMap] = []
        self._object: BpfObject | None = BpfObject(object_path("chooser"))
        try:
            choice = _CHOICE.pack(unmarked, mcp.encode(), dctcp.encode())
            self._object.map("choice", len(_ZERO), _CHOICE.size)[_ZERO] = choice
            self._gates.append(self._object.map(*_GATED))
            if control is not None and (more := control.gates()) is not None:
                self._gates.append(more)
            for program in ("choose", "choose_again"):
                self._object.attach_cgroup(program, where)
        except BaseException:
            self.close()
            raise

    def gate(self, addresses: Collection[Address]) -> None:
        """Sets all addresses behind a gate: connections to them that are made or marked from now on get DCTCP.

        MCP plans its rate over the whole deadline; a gate that is closed between slots breaks the plan, and MCP falls behind.
        """
        if self._object is None or (wanted := {packed(address) for address in addresses}) == self._gated:
            return
        for gated in self._gates:
            for key in wanted - self._gated:
                gated[key] = b"\1"
            for key in self._gated - wanted:
                gated.remove(key)
        self._gated = wanted

    def close(self) -> None:
        """Ends the choice; connections keep their congestion control. May be called again."""
        self._gates.clear()
        if self._object is not None:
            self._object.close()
            self._object = None


def _end_of(record: bytes) -> McpEnd:
    size, remaining, elapsed, deadline, outcome, source_port, target_port, family, *ends = _EVENT.unpack_from(record)
    length = 4 if family == _AF_INET else 16
    source, target = (ipaddress.ip_address(end[:length]) for end in ends)
    return McpEnd(Outcome(outcome), source, source_port, target, target_port, size, remaining, elapsed, deadline)
