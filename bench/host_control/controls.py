"""The ways to close and open a flow: the gate itself, PFC frames to the agent, and conditions to the agent. An edge.

Each issues one command at a time, at a given instant, and knows afterwards when each command arrived at the host: the time of
the call for the gate itself, the kernel's timestamp of the frame at the host's interface for an agent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from agents.membership.clock_sync import FIRST_PINGS
from agents.queues.host import Host
from bench.host_control.capture import Capture, control_at
from bench.host_control.delays import Command
from bench.host_control.ends import SENDER, Ends, EndsError, affinity
from bench.host_control.load import AGENT_PRIORITY, PARTNER_PRIORITY, Commander, Processors
from bench.host_control.partner import FIRST_NODE, Partner
from emulation.processes import end_process
from protocol import pfc
from protocol.bodies.host_control import Conditions, QueueCondition, Transport, Week, WeekKey
from protocol.bodies.pfc import Action, PfcSettings
from protocol.bodies.vocabulary import Kind
from protocol.key import Key
from protocol.keys import host_file
from protocol.keys.hosts import Master
from protocol.messages import ETHERTYPE
from protocol.pfc import CLASSES, MAX_QUANTA, PfcFrame
from protocol.wire import ETHERNET_BYTES

JOIN_S = 10.0
READINGS = 32
BEFORE_NS = 300_000
"""How long before a command its frame is made. Frames that are sent in between would have higher sequence numbers."""
STORM_NS = 60_000_000_000
KIND_AT = 3
"""In the header (PROTOCOL.md): after magic and version."""


class Issued(NamedTuple):
    """One command: when it was given (ns, CLOCK_REALTIME), and when the gate had obeyed (0: unknown)."""

    at_ns: int
    flow: int
    opens: bool
    done_ns: int = 0


def realtime_ns() -> int:
    """The time by CLOCK_REALTIME, the clock of the kernel's timestamps."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def realtime_ahead_ns() -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC: one read between two readings of the other, the closest of several."""

    def once() -> tuple[int, int]:
        before_ns, shown_ns, after_ns = time.monotonic_ns(), realtime_ns(), time.monotonic_ns()
        return after_ns - before_ns, shown_ns - (before_ns + after_ns) // 2

    return min(once() for _ in range(READINGS))[1]


class Control(ABC):
    """One way to close and open flows."""

    def __init__(self, commander: Commander) -> None:
        self.commander = commander
        self.issued: list[Issued] = []

    @abstractmethod
    def command(self, flow: int, *, opens: bool, at_ns: int) -> None:
        """Waits for an instant of the monotonic clock, then closes or opens a flow."""

    @contextmanager
    def prepared(self, flows: int) -> Iterator[None]:
        """Prepares the host for so many flows; entered when they are being sent, left before they end."""
        yield

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[Command]]]:
        """Records the commands of the block; call what it yields at the end of the block to get them."""
        self.issued.clear()
        yield lambda: [Command(*issued) for issued in self.issued]


class Direct(Control):
    """The gate alone: what an agent does once it has decided to obey."""

    def __init__(self, host: Host, processor: int | None) -> None:
        super().__init__(Commander(processor, AGENT_PRIORITY))
        self._host = host

    def command(self, flow: int, *, opens: bool, at_ns: int) -> None:
        while (left := at_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        begin_ns = realtime_ns()
        if opens:
            self._host.open_gate(FIRST_NODE + flow)
            self._host.wake_queues()
        else:
            self._host.close_gate(FIRST_NODE + flow)
        self.issued.append(Issued(begin_ns, flow, opens, realtime_ns()))


class ByAgent(Control):
    """An agent that runs as `baton agent` does, commanded by the link partner at the wire's other end."""

    ethertype = ETHERTYPE

    def __init__(self, ends: Ends, partner: Partner, processor: int | None) -> None:
        super().__init__(Commander(processor, PARTNER_PRIORITY))
        self._ends, self.partner = ends, partner

    def command(self, flow: int, *, opens: bool, at_ns: int) -> None:
        self.partner.serve_until(at_ns - BEFORE_NS)
        frame = self._frame(flow, opens=opens)  # made ahead: the partner may share the sender's processor
        self.partner.serve_until(at_ns)
        begin_ns = realtime_ns()
        self.partner.send_frame(frame)
        self.issued.append(Issued(begin_ns, flow, opens))

    @abstractmethod
    def _frame(self, flow: int, *, opens: bool) -> bytes:
        """The frame that carries the command."""

    def _is_command(self, frame: bytes) -> bool:
        """Whether a captured frame is a command."""
        return True

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[Command]]]:
        with control_at(self._ends.sender, [self.ethertype]) as capture, super().watched():
            yield lambda: self._arrived(capture)

    def _arrived(self, capture: Capture) -> list[Command]:
        """Each command with the arrival of the first frame after it was given; without the commands whose frame was lost."""
        times = [at for at, frame in capture.frames() if self._is_command(frame)]
        found = []
        for number, issued in enumerate(self.issued):
            at = bisect_left(times, issued.at_ns)
            following = self.issued[number + 1].at_ns if number + 1 < len(self.issued) else issued.at_ns + 10**9
            if at < len(times) and times[at] < following:
                found.append(Command(times[at], issued.flow, issued.opens))
        return found


class ByPfc(ByAgent):
    """PFC frames: one pauses a flow's class for the longest time that a frame can state, one with a time of 0 resumes it.

    Flow n is of class n modulo 8, so with sixteen flows a frame closes two at once. Flows that the agent knows and that send
    nothing now get the last class, if no flow that sends is of it: without a class they would be of class 0, and closed with
    it.
    """

    ethertype = pfc.ETHERTYPE

    @contextmanager
    def prepared(self, flows: int) -> Iterator[None]:
        classes = (flow % CLASSES if flow < flows or flows >= CLASSES else CLASSES - 1 for flow in range(self.partner.flows))
        self.partner.send(pfc_settings(tuple((FIRST_NODE + flow, its) for flow, its in enumerate(classes))))
        yield

    def _frame(self, flow: int, *, opens: bool) -> bytes:
        return PfcFrame(self.partner.address, {flow % CLASSES: 0 if opens else MAX_QUANTA}).encode()


class ByCondition(ByAgent):
    """Baton's CONDITIONS: the full state of dequeue conditions, in which a closed flow has a condition that is never met."""

    def __init__(self, ends: Ends, partner: Partner, processor: int | None) -> None:
        super().__init__(ends, partner, processor)
        self._version = 1
        self._closed: set[int] = set()

    def _frame(self, flow: int, *, opens: bool) -> bytes:
        (self._closed.discard if opens else self._closed.add)(flow)
        self._version += 1
        entries = tuple(QueueCondition(FIRST_NODE + closed, 0, 0, 0) for closed in sorted(self._closed))
        return self.partner.sealed(Conditions(self._version, 0, 1, entries))

    def _is_command(self, frame: bytes) -> bool:
        return frame[ETHERNET_BYTES + KIND_AT] == Kind.CONDITIONS


def pfc_settings(nodes: tuple[tuple[int, int], ...] = ()) -> PfcSettings:
    """Settings that give nodes their classes. The agent only reports storms: a class may wait for the days of seven others."""
    return PfcSettings(Action.ALERT, (STORM_NS,) * CLASSES, (STORM_NS,) * CLASSES, (), nodes)


def free_week(number: int) -> Week:
    """The week without flows: it frees every flow at once."""
    return Week(number, time.monotonic_ns(), 0, 0, 0, WeekKey.DESTINATION, Transport.SCHEDULE, (), ())


@contextmanager
def direct(ends: Ends, processors: Processors, gate: str, rate_bps: int, flows: int) -> Iterator[Direct]:
    """Makes the host's queues in this process. Raises OSError: the kernel has no such gate."""
    with TemporaryDirectory(prefix="baton-bench-") as directory:
        with ends.sender.entered():
            host = Host(ends.sender.interface, rate_bps, gate_kind=gate, run_dir=Path(directory))
        try:
            targets = ends.targets(flows)
            for flow, target in enumerate(targets):
                host.queues.ensure_flow(SENDER, target, FIRST_NODE + flow)
            host.flows.set_directory({FIRST_NODE + flow: [target] for flow, target in enumerate(targets)})
            yield Direct(host, processors.agent)
        finally:
            with ends.sender.entered():  # close() finds the interface by its name
                host.close()


class AgentOptions(NamedTuple):
    """How the agent runs."""

    rate_bps: int
    gate: str = "tbf"
    busy_poll: bool = False

    def argv(self) -> list[str]:
        """As options of `baton agent`."""
        polling = ["--busy-poll"] if self.busy_poll else []
        return ["--rate", f"{self.rate_bps}bit", "--gate", self.gate, "--realtime", str(AGENT_PRIORITY),
                "--pfc", "software", *polling]  # fmt: skip


@contextmanager
def agent(
    ends: Ends, processors: Processors, options: AgentOptions, flows: int, *, first: IPv4Address | None = None
) -> Iterator[Partner]:
    """Runs an agent at the sender's end until it is a member; yields its partner. Raises EndsError with the agent's last line.

    Args:
        first: the destination of flow 0, in place of an address that no host has.
    """
    with ExitStack() as exits:
        directory = Path(exits.enter_context(TemporaryDirectory(prefix="baton-bench-")))
        key_file = directory / "key"
        master = Master(Key(os.urandom(32)))
        host_file.save(host := master.enroll("host"), key_file)
        targets = ends.targets(flows)
        partner = Partner(ends.receiver, master, host, [first, *targets[1:]] if first else targets)
        exits.callback(partner.close)
        words = ["--interface", ends.sender.interface, "--key", str(key_file), "--run-dir", str(directory), "--name", "host",
                 "--address", str(SENDER), *options.argv()]  # fmt: skip
        argv = ends.sender.command(sys.executable, "-m", "cli.main", "agent", *words)
        log = exits.enter_context((directory / "log").open("w+"))
        process = subprocess.Popen([*affinity(processors.agent), *argv], stdout=log, stderr=subprocess.STDOUT)
        exits.callback(end_process, process)
        partner.wait(lambda: partner.welcomed or process.poll() is not None, JOIN_S)
        if process.poll() is not None or not partner.welcomed:
            log.seek(0)
            lines = log.read().strip().splitlines() or ["it printed nothing"]
            raise EndsError(f"the agent did not join: {lines[-1]}")
        partner.wait(lambda: partner.answered > FIRST_PINGS, JOIN_S)
        yield partner
