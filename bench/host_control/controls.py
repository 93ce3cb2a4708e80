"""The ways to close and open a flow: the gate itself, PFC frames to the agent, and conditions to the agent. An edge.

Each issues one command at a time, at the instant it is told, and knows afterwards when every command had arrived at the host:
for the gate itself when it was called, for the agent by the kernel's timestamp of the frame at the host's interface.
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
from bench.host_control.ends import SENDER, Ends, EndsError, affinity, stop
from bench.host_control.load import AGENT_PRIORITY, PARTNER_PRIORITY, Commander, Processors
from bench.host_control.partner import FIRST_NODE, Partner
from protocol import pfc
from protocol.bodies.host_control import Conditions, FlowKey, QueueCondition, Transport, Week
from protocol.bodies.pfc import Action, PfcSettings
from protocol.bodies.vocabulary import Kind
from protocol.key import Key
from protocol.messages import ETHERTYPE
from protocol.pfc import CLASSES, MAX_QUANTA, Pfc
from protocol.wire import ETHERNET_BYTES

JOIN_S = 10.0
READINGS = 32
BEFORE_NS = 300_000
"""How long before a command its frame is made: not so long that others are sent in between, whose numbers are higher then."""
STORM_NS = 60_000_000_000
KIND_AT = 3
"""In the header (PROTOCOL.md): after magic and version."""


class Issued(NamedTuple):
    """One command: when it was given (ns, CLOCK_REALTIME), and when it was obeyed, if that is known."""

    at_ns: int
    flow: int
    opens: bool
    done_ns: int = 0


def realtime_ns() -> int:
    """The clock of the kernel's timestamps."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


def realtime_ahead_ns() -> int:
    """What that clock shows more than the monotonic one: read between two readings of the other, the closest of several."""

    def once() -> tuple[int, int]:
        before_ns, shown_ns, after_ns = time.monotonic_ns(), realtime_ns(), time.monotonic_ns()
        return after_ns - before_ns, shown_ns - (before_ns + after_ns) // 2

    return min(once() for _ in range(READINGS))[1]


class Control(ABC):
    """One way."""

    def __init__(self, commander: Commander) -> None:
        self.commander = commander
        self.issued: list[Issued] = []

    @abstractmethod
    def command(self, flow: int, *, opens: bool, at_ns: int) -> None:
        """Closes or opens a flow at an instant of the monotonic clock; waits for it."""

    @contextmanager
    def prepared(self, flows: int) -> Iterator[None]:
        """Entered once so many flows are being sent; left before they end."""
        yield

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[Command]]]:
        """What is commanded meanwhile; call what it gives at the end of it."""
        self.issued.clear()
        yield lambda: [Command(*issued) for issued in self.issued]


class Direct(Control):
    """The gate, without anything before it: what the agent does when it obeys."""

    def __init__(self, host: Host, processor: int | None) -> None:
        super().__init__(Commander(processor, AGENT_PRIORITY))
        self._host = host

    def command(self, flow: int, *, opens: bool, at_ns: int) -> None:
        while (left := at_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        begin_ns = realtime_ns()
        if opens:
            self._host.open(FIRST_NODE + flow)
            self._host.kick()
        else:
            self._host.close_gate(FIRST_NODE + flow)
        self.issued.append(Issued(begin_ns, flow, opens, realtime_ns()))


class ByAgent(Control):
    """Through an agent that runs as `baton agent` does, told by its partner at the wire's other end."""

    ethertype = ETHERTYPE

    def __init__(self, ends: Ends, partner: Partner, processor: int | None) -> None:
        super().__init__(Commander(processor, PARTNER_PRIORITY))
        self._ends, self.partner = ends, partner

    def command(self, flow: int, *, opens: bool, at_ns: int) -> None:
        self.partner.until(at_ns - BEFORE_NS)
        frame = self._frame(flow, opens=opens)  # before: the partner may share the sender's processor
        self.partner.until(at_ns)
        begin_ns = realtime_ns()
        self.partner.frame(frame)
        self.issued.append(Issued(begin_ns, flow, opens))

    @abstractmethod
    def _frame(self, flow: int, *, opens: bool) -> bytes:
        """What to send."""

    def _is_command(self, frame: bytes) -> bool:
        """Whether a frame of our EtherType is a command."""
        return True

    @contextmanager
    def watched(self) -> Iterator[Callable[[], list[Command]]]:
        with control_at(self._ends.sender, [self.ethertype]) as capture, super().watched():
            yield lambda: self._arrived(capture)

    def _arrived(self, capture: Capture) -> list[Command]:
        """Each command with the arrival of the first frame after it was given; one whose frame was lost is left out."""
        times = [at for at, frame in capture.frames() if self._is_command(frame)]
        found = []
        for number, issued in enumerate(self.issued):
            at = bisect_left(times, issued.at_ns)
            following = self.issued[number + 1].at_ns if number + 1 < len(self.issued) else issued.at_ns + 10**9
            if at < len(times) and times[at] < following:
                found.append(Command(times[at], issued.flow, issued.opens))
        return found


class ByPfc(ByAgent):
    """PFC frames: a flow's class is paused for as long as a frame can say, and resumed by a time of 0.

    Flow n is of class n modulo 8: with sixteen flows two are closed at once. Those that the agent knows and that send nothing
    now are of the last class, as long as it has no flow: they would be of class 0 if none was named, and shut with it.
    """

    ethertype = pfc.ETHERTYPE

    @contextmanager
    def prepared(self, flows: int) -> Iterator[None]:
        classes = (flow % CLASSES if flow < flows or flows >= CLASSES else CLASSES - 1 for flow in range(self.partner.flows))
        self.partner.say(pfc_settings(tuple((FIRST_NODE + flow, its) for flow, its in enumerate(classes))))
        yield

    def _frame(self, flow: int, *, opens: bool) -> bytes:
        return Pfc(self.partner.address, {flow % CLASSES: 0 if opens else MAX_QUANTA}).encode()


class ByCondition(ByAgent):
    """Baton's own message: the full state of dequeue conditions, in which a closed flow has one that is never met."""

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
    """Nodes and their classes. Storms are only told of: a class may wait for seven days of others."""
    return PfcSettings(Action.ALERT, (STORM_NS,) * CLASSES, (STORM_NS,) * CLASSES, (), nodes)


def nobody(number: int) -> Week:
    """The week that frees every flow at once."""
    return Week(number, time.monotonic_ns(), 0, 0, 0, FlowKey.DESTINATION, Transport.SCHEDULE, (), ())


@contextmanager
def direct(ends: Ends, processors: Processors, gate: str, rate_bps: int, flows: int) -> Iterator[Direct]:
    """The host's queues in this process. Raises OSError: the kernel has no such gate."""
    with TemporaryDirectory(prefix="baton-bench-") as directory:
        with ends.sender.entered():
            host = Host(ends.sender.interface, rate_bps, gate=gate, run_dir=Path(directory))
        try:
            targets = ends.targets(flows)
            for flow, target in enumerate(targets):
                host.queues.ensure_flow(SENDER, target, FIRST_NODE + flow)
            host.flows.set_directory({FIRST_NODE + flow: [target] for flow, target in enumerate(targets)})
            yield Direct(host, processors.agent)
        finally:
            with ends.sender.entered():  # what is put back is found by its name
                host.close()


class AgentOptions(NamedTuple):
    """How the agent is run."""

    rate_bps: int
    gate: str = "tbf"
    busy_poll: bool = False

    def argv(self) -> list[str]:
        """For `baton agent`."""
        polling = ["--busy-poll"] if self.busy_poll else []
        return ["--rate", f"{self.rate_bps}bit", "--gate", self.gate, "--realtime", str(AGENT_PRIORITY),
                "--pfc", "software", *polling]  # fmt: skip


@contextmanager
def agent(
    ends: Ends, processors: Processors, options: AgentOptions, flows: int, *, first: IPv4Address | None = None
) -> Iterator[Partner]:
    """An agent at the sender's end that is a member; its partner. Raises EndsError with the last that it said.

    Args:
        first: where flow 0 goes to, in place of an address that nobody has.
    """
    with ExitStack() as exits:
        directory = Path(exits.enter_context(TemporaryDirectory(prefix="baton-bench-")))
        key_file = directory / "key"
        key_file.write_text(os.urandom(32).hex() + "\n")
        key_file.chmod(0o600)
        targets = ends.targets(flows)
        partner = Partner(ends.receiver, Key.load(key_file), [first, *targets[1:]] if first else targets)
        exits.callback(partner.close)
        words = ["--interface", ends.sender.interface, "--key", str(key_file), "--run-dir", str(directory), "--name", "host",
                 "--address", str(SENDER), *options.argv()]  # fmt: skip
        argv = ends.sender.command(sys.executable, "-m", "cli.main", "agent", *words)
        log = exits.enter_context((directory / "log").open("w+"))
        process = subprocess.Popen([*affinity(processors.agent), *argv], stdout=log, stderr=subprocess.STDOUT)
        exits.callback(stop, process)
        partner.wait(lambda: partner.welcomed or process.poll() is not None, JOIN_S)
        if process.poll() is not None or not partner.welcomed:
            log.seek(0)
            lines = log.read().strip().splitlines() or ["it said nothing"]
            raise EndsError(f"the agent did not join: {lines[-1]}")
        partner.wait(lambda: partner.answered > FIRST_PINGS, JOIN_S)
        yield partner
