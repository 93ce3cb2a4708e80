"""The tagger at an interface's egress: loads it, sets its thresholds and settings, reads the ends of flows. An edge.

agents/bpf/tagger.bpf.c chooses the queue of each packet (Karuna, SIGCOMM 2016, sections 4 and 5); layouts are those of
agents/bpf/tagger.h. The table holds `TABLE_FLOWS` flows in memory allocated once; when it is full, the kernel drops the least
recently used flow.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Self

from agents.bpf.build import object_path
from agents.kernel.netlink import RTM_DELTFILTER, RTM_GETQDISC, RTM_GETTFILTER, Netlink, NetlinkError, message
from agents.kernel.snapshot import EGRESS, ETH_P_ALL, TAGGER_PREFERENCE, without_egress
from agents.queues.classifier import Address, packed, unpacked
from ebpf.libbpf import BpfError, BpfMap, BpfObject
from protocol.flowmark import COFLOW_FIELD, COFLOW_MAX, SIZE_BITS

TABLE_FLOWS = 131_072
QUEUES, MAX_THRESHOLDS = 8, 6
SHORT_BYTES = 100_000
"""The flows that Karuna's figures call short."""
_SETTINGS = struct.Struct("=QQQQII8s")
_THRESHOLDS = struct.Struct(f"=II{MAX_THRESHOLDS}Q{MAX_THRESHOLDS}Q")
_END = struct.Struct("=16s16s4sB3xQQQIBBBB")
_PORTS = struct.Struct("!HH")
_COUNTERS = struct.Struct("=6Q")
_KEY = struct.Struct("=16s16s4sB3x")
_SENT_KEY = struct.Struct("=16sI")
_FLOW = struct.Struct("=QQQ24xI4xBxxBB3x")
_ZERO = bytes(4)


class EndReason(IntEnum):
    """Why the tagger considers a flow ended."""

    FIN = 1
    RST = 2
    IDLE = 3
    REPLACED = 4


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """A flow that ended: `size_bytes` of payload without retransmissions, and the queues that its packets went to."""

    source: Address
    target: Address
    protocol: int
    source_port: int
    target_port: int
    size_bytes: int
    start_ns: int  # CLOCK_MONOTONIC
    duration_ns: int
    mark: int
    flow_type: int
    queues: tuple[int, ...]
    reason: EndReason
    promotions: int

    @classmethod
    def unpack(cls, record: bytes) -> Self:
        """From a `struct tag_end`."""
        source, target, ports, protocol, size, start, duration, mark, kind, bits, reason, promotions = _END.unpack_from(record)
        source_port, target_port = _PORTS.unpack(ports)
        return cls(
            unpacked(source),
            unpacked(target),
            protocol,
            source_port,
            target_port,
            size,
            start,
            duration,
            mark,
            kind,
            tuple(queue for queue in range(QUEUES) if bits >> queue & 1),
            EndReason(reason),
            promotions,
        )


def silent_flow(key: bytes, value: bytes, now_ns: int, forget_ns: int) -> FlowEnd | None:
    """The end of a flow of the table that was silent for `forget_ns`, else None; `size_bytes` is 0 if it was told before. Pure.

    Args:
        key, value: a `struct tag_key` and a `struct tag_flow`.
    """
    source, target, ports, protocol = _KEY.unpack(key)
    start_ns, last_ns, size, mark, bits, promotions, closed = _FLOW.unpack(value)
    if now_ns - last_ns < forget_ns:
        return None
    deadline, (source_port, target_port) = mark >> SIZE_BITS, _PORTS.unpack(ports)
    return FlowEnd(
        unpacked(source),
        unpacked(target),
        protocol,
        source_port,
        target_port,
        0 if closed else size,
        start_ns,
        last_ns - start_ns,
        mark,
        4 if deadline == COFLOW_FIELD else 1 if deadline else 2 if mark else 3,
        tuple(queue for queue in range(QUEUES) if bits >> queue & 1),
        EndReason.IDLE,
        promotions,
    )


@dataclass(frozen=True, slots=True)
class TaggerSettings:
    """The DSCPs of the queues, and how the tagger interprets silence.

    `dscp` has a codepoint for queue 0 (type 1) and for bands 1 to 7 of types 2 and 3. Flows of the first band share queue 0 up
    to `short_bytes`, by their size where it is known, and by what they have sent (0: none does). Sequence numbers that go back
    after `rto_ns` of silence are a timeout; a flow of unknown size is promoted after kappa timeouts, drawn from `kappa_min` to
    `kappa_max`. New data after `idle_ns` of silence is a new flow on its connection (0: never). A sweep removes flows silent
    for `forget_ns`.

    Raises:
        ValueError: a number is out of its range; names the field.
    """

    dscp: tuple[int, ...] = (7, 6, 5, 4, 3, 2, 1, 0)
    rto_ns: int = 190_000_000  # just below Linux' least timeout, for the timer's own granularity
    idle_ns: int = 200_000_000
    forget_ns: int = 10_000_000_000
    short_bytes: int = SHORT_BYTES
    kappa_min: int = 2
    kappa_max: int = 10

    def __post_init__(self) -> None:
        if len(self.dscp) != QUEUES or not all(0 <= value < 64 for value in self.dscp):
            raise ValueError(f"dscp is {self.dscp}; it needs {QUEUES} codepoints from 0 to 63")
        if self.rto_ns <= 0 or self.forget_ns <= 0:
            raise ValueError(f"rto_ns is {self.rto_ns} and forget_ns {self.forget_ns}; both are above 0")
        if self.idle_ns < 0 or self.short_bytes < 0:
            raise ValueError(f"idle_ns is {self.idle_ns} and short_bytes {self.short_bytes}; both are above 0, or 0 for never")
        if not 1 <= self.kappa_min <= self.kappa_max <= 255:
            raise ValueError(f"kappa is {self.kappa_min} to {self.kappa_max}; it needs 1 <= kappa_min <= kappa_max <= 255")


@dataclass(frozen=True, slots=True)
class TaggerCounters:
    """Packets and events since the start. Packets with options, fragments and other protocols count as `untouched`; only
    `malformed` is an error."""

    tagged: int
    untouched: int
    malformed: int
    timeouts: int
    promotions: int
    unreported: int


class RunOptions(ctypes.Structure):
    """struct bpf_test_run_opts of bpf/bpf.h, version 1: the options for running a program from user space."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("data_size_in", "data_size_out")),
        ("ctx_in", ctypes.c_char_p),
        ("ctx_out", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("ctx_size_in", "ctx_size_out", "retval")),
        ("repeat", ctypes.c_int),
        *((name, ctypes.c_uint32) for name in ("duration", "flags", "cpu", "batch_size")),
    )


class _Programs(BpfObject):
    """The tagger's object. `sweeps`: whether it has the program that the loader runs."""

    def __init__(self, path: Path) -> None:
        """Loads it; without the program `sweep`, which calls a function, if the kernel has no JIT. Raises BpfError."""
        self.sweeps = True
        try:
            super().__init__(path)
        except BpfError:
            self.sweeps = False
            super().__init__(path, without="sweep")

    def run(self, program: str) -> int:
        """Runs a program of type syscall once; returns its result. Raises BpfError."""
        found = self._library.bpf_object__find_program_by_name(self._object, program.encode())
        fd = self._library.bpf_program__fd(found)
        options = RunOptions(sz=ctypes.sizeof(RunOptions))
        error = self._library.bpf_prog_test_run_opts(fd, ctypes.byref(options))
        if error:
            raise BpfError(-error, f"running {program}: {os.strerror(-error)}")
        return int(options.retval)


def remove(netlink: Netlink, ifindex: int) -> None:
    """Removes a tagger's filter from an interface, if there is one. Raises NetlinkError."""
    ours = TAGGER_PREFERENCE << 16 | ETH_P_ALL
    try:
        netlink.request(message(RTM_DELTFILTER, 0, ifindex, parent=EGRESS, info=ours))
    except NetlinkError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL, errno.ENODEV):  # no such filter, hook, or interface
            raise


class Tagger:
    """The tagger at one interface's egress. Until thresholds are set, all packets of types 2 and 3 are in band 1."""

    def __init__(self, interface: str, settings: TaggerSettings | None = None) -> None:
        """Loads and attaches the tagger, and replaces one that an earlier process left. Raises BuildError, BpfError."""
        self._interface, self._ifindex = interface, socket.if_nametoindex(interface)
        self._object = _Programs(object_path("tagger"))
        self._settings = self._object.map("settings", 4, _SETTINGS.size)
        self._thresholds = self._object.map("thresholds", 4, _THRESHOLDS.size)
        self._active = self._object.map("active", 4, 4)
        self._coflow_queues = self._object.map("coflows", 4, 8)
        self._coflows: dict[int, int] = {}
        self._coflows_sent = self._object.map("coflows_sent", _SENT_KEY.size, 8)
        self._flows = self._object.map("flows", _KEY.size, _FLOW.size)
        cpus = _possible_cpus()
        self._counters = self._object.map("counters", 4, _COUNTERS.size * cpus)
        self._ends: list[FlowEnd] = []
        self._fd, self._consume = self._object.ring("ends", lambda record: self._ends.append(FlowEnd.unpack(record)))
        self._forget_ns = 0
        self.set_settings(settings or TaggerSettings())
        self._netlink = Netlink()
        remove(self._netlink, self._ifindex)
        self._object.attach_egress("tag", self._ifindex, TAGGER_PREFERENCE)

    def set_settings(self, settings: TaggerSettings) -> None:
        """Replaces the settings from the next packet on; a flow keeps its kappa."""
        *numbers, kappa_min, kappa_max = astuple(settings)[1:]
        self._forget_ns = settings.forget_ns
        self._settings[_ZERO] = _SETTINGS.pack(*numbers, kappa_min, kappa_max, bytes(settings.dscp))

    def set_thresholds(self, version: int, beta: Sequence[int], alpha: Sequence[int]) -> None:
        """Replaces all thresholds (bytes) between two packets; keeps the state of flows.

        Raises:
            ValueError: `beta` and `alpha` differ in length, have more than `MAX_THRESHOLDS`, fall, or exceed 64 bits; nothing
                changes.
        """
        if len(beta) != len(alpha):
            raise ValueError(f"beta has {len(beta)} thresholds and alpha {len(alpha)}; both need bands - 1")
        for name, cuts in (("beta", beta), ("alpha", alpha)):
            if len(cuts) > MAX_THRESHOLDS:
                raise ValueError(f"{name} has {len(cuts)} thresholds; there are at most {MAX_THRESHOLDS}")
            if list(cuts) != sorted(cuts) or any(not 0 <= cut < 1 << 64 for cut in cuts):
                raise ValueError(f"{name} is {tuple(cuts)}; thresholds never fall, and are from 0 to 2**64 - 1")
        unused = [0] * (MAX_THRESHOLDS - len(beta))
        slot = 1 - self._active_slot()
        self._thresholds[_number(slot)] = _THRESHOLDS.pack(version, len(beta), *beta, *unused, *alpha, *unused)
        self._active[_ZERO] = _number(slot)

    def set_coflows(self, queues: Mapping[int, int]) -> None:
        """Sets the queue of each coflow, by id, from the next packet on. Of one that is not named, a flow's first 64 KB have
        queue 1, and the rest the last queue.

        Raises:
            ValueError: an id or a queue is out of range; nothing changes.
        """
        for coflow, queue in queues.items():
            if not 0 < coflow <= COFLOW_MAX or not 0 <= queue < QUEUES:
                raise ValueError(f"coflow {coflow} has queue {queue}; ids are 1 to {COFLOW_MAX}, queues 0 to {QUEUES - 1}")
        changed = [coflow for coflow, _ in queues.items() ^ self._coflows.items()]
        for coflow in changed:
            eight = bytearray(self._coflow_queues.get(_number(coflow // 8)) or bytes(8))
            eight[coflow % 8] = QUEUES - queues[coflow] if coflow in queues else 0
            self._coflow_queues[_number(coflow // 8)] = bytes(eight)
        self._coflows = dict(queues)

    def coflow_bytes(self) -> dict[tuple[int, Address], int]:
        """Payload sent so far, by coflow and destination address; of those that were not forgotten."""
        found, addresses = {}, dict[bytes, Address]()
        for key, value in self._coflows_sent.items():
            target, coflow = _SENT_KEY.unpack(key)
            if (address := addresses.get(target)) is None:
                address = addresses[target] = unpacked(target)
            found[coflow, address] = int.from_bytes(value, "little")
        return found

    def forget_coflow_bytes(self, coflow: int, target: Address) -> None:
        """Counts from zero again."""
        self._coflows_sent.remove(_SENT_KEY.pack(packed(target), coflow))

    def version(self) -> int:
        """The version of the thresholds in use; 0 before the first."""
        value = self._thresholds.get(_number(self._active_slot()))
        return 0 if value is None else int.from_bytes(value[:4], "little")

    def map(self, name: str, key_bytes: int, value_bytes: int) -> BpfMap:
        """One of its tables, for what else fills it: that of guests' marks (agents/guests/guest_map.py)."""
        return self._object.map(name, key_bytes, value_bytes)

    def fileno(self) -> int:
        """For select: readable when flows have ended."""
        return self._fd

    def ended(self) -> list[FlowEnd]:
        """Flows that ended since the last call; the next call returns what was too much for one."""
        self._consume()
        found, self._ends = self._ends, []
        return found

    def sweep(self) -> int:
        """Removes the flows that have been silent for `forget_ns`; returns how many. `ended` returns their ends."""
        return self._object.run("sweep") if self._object.sweeps else self._swept()

    def _swept(self) -> int:
        """As the program `sweep`, for kernels that refuse it; slower."""
        removed, now_ns = 0, time.monotonic_ns()
        for key in list(self._flows.keys()):
            if (value := self._flows.get(key)) is None or (end := silent_flow(key, value, now_ns, self._forget_ns)) is None:
                continue
            self._flows.remove(key)
            removed += 1
            self._ends += [end] if end.size_bytes else []
        return removed

    def flow_count(self) -> int:
        """The number of flows in the table. For diagnosis: it walks over the whole table."""
        return sum(1 for _ in self._flows.keys())  # noqa: SIM118 -- not a dict

    def counters(self) -> TaggerCounters:
        """Sums over all processors."""
        value = self._counters.get(_ZERO) or b""
        return TaggerCounters(*(sum(column) for column in zip(*_COUNTERS.iter_unpack(value), strict=True)))

    def repair(self) -> bool:
        """Attaches the tagger again if its filter is missing; returns whether it did. The state of flows stays."""
        found = self._netlink.dump(RTM_GETTFILTER, self._ifindex, parent=EGRESS)
        if any(entry.info >> 16 == TAGGER_PREFERENCE for entry in found):
            return False
        if without_egress(self._netlink.dump(RTM_GETQDISC, self._ifindex), self._interface):
            return False  # the classifier, which has the same place, says so
        self._object.attach_egress("tag", self._ifindex, TAGGER_PREFERENCE)
        return True

    def close(self) -> None:
        """Removes the filter and frees the tables."""
        remove(self._netlink, self._ifindex)
        self._netlink.close()
        self._object.close()

    def _active_slot(self) -> int:
        return int.from_bytes(self._active.get(_ZERO) or _ZERO, "little")


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _possible_cpus() -> int:
    """The number of values that a per-CPU map returns: one for each possible processor."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().replace(",", "-").split("-")[-1]
    return int(last) + 1
