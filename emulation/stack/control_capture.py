"""The control frames that reach each host, captured by tcpdump, and which of them its agent accepts. An edge: processes, files.

What an agent accepts follows from the frames alone: the capture gives them to a `protocol.auth.Guard` again, in their order.
"""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from controller.processes.waiting import wait_until
from emulation.fabric.fabric import EmulatedFabric
from emulation.processes import end_process
from emulation.resource import Resource
from protocol.auth import Guard
from protocol.keys.hosts import Credentials
from protocol.messages import COORDINATOR, ETHERTYPE, Cause

FILE_HEADER, RECORD_HEADER = 24, 16
NANOSECOND_MAGIC = 0xA1B23C4D  # pcap-savefile(5)
START_S = 5.0


class CapturedFrame(NamedTuple):
    """A leader's frame at a host: arrival (monotonic ns), source address, epoch, message, and why the agent refuses it (None:
    it accepts the frame)."""

    host: str
    at_ns: int
    source: bytes
    epoch: int
    message: Any
    refused: Cause | None


class ControlCapture(Resource):
    """Captures the control frames at the hosts inside the block; `frames` reads them afterwards."""

    def __init__(
        self, emulated: EmulatedFabric, hosts: Iterable[str], directory: Path, keys: Callable[[str], Credentials]
    ) -> None:
        """`keys`: each host's, by which its frames are verified."""
        self._emulated = emulated
        self._hosts = tuple(hosts)
        self._directory = directory
        self._keys = keys

    def _start(self, stack: ExitStack) -> None:
        for host in self._hosts:
            options = ["--immediate-mode", "-U", "--time-stamp-precision=nano", "-Q", "in"]
            command = ["tcpdump", "-i", self._emulated.interface(host), *options, "-w", str(self._file(host))]
            process = self._emulated.popen(
                host, [*command, f"ether proto {ETHERTYPE}"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(end_process, process)
        wait_until(lambda: all(self._file(host).exists() for host in self._hosts), START_S)

    def frames(self) -> list[CapturedFrame]:
        """The leaders' frames at all hosts, in the order of their arrival."""
        ahead_ns = time.time_ns() - time.monotonic_ns()
        found = []
        for host in self._hosts:
            keys = self._keys(host)
            guard = Guard(keys, address=bytes.fromhex(self._emulated.node(host).MAC().replace(":", "")))
            for at_ns, raw in _records(self._file(host).read_bytes()):
                before = guard.refused.copy()
                accepted = guard.accept(raw)
                frame = accepted or Guard(keys).accept(raw)  # one that has heard nothing takes all that is authentic
                if frame is not None and frame.sender == COORDINATOR:
                    cause = next(iter(guard.refused - before), None)
                    found.append(CapturedFrame(host, at_ns - ahead_ns, frame.source, frame.epoch, frame.message, cause))
        return sorted(found, key=lambda frame: frame.at_ns)

    def _file(self, host: str) -> Path:
        return self._directory / f"{host}.pcap"


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Wall-clock time (ns) and frame of each record of a capture file that was written on this machine."""
    if len(data) < FILE_HEADER or struct.unpack_from("=I", data)[0] != NANOSECOND_MAGIC:
        return
    at = FILE_HEADER
    while at + RECORD_HEADER <= len(data):
        seconds, nanoseconds, kept, _ = struct.unpack_from("=IIII", data, at)
        at += RECORD_HEADER
        yield seconds * 1_000_000_000 + nanoseconds, data[at : at + kept]
        at += kept
