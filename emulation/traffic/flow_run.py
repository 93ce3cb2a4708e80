"""Runs a list of flows over an emulated fabric: starts the traffic programs, joins the results of both ends. An edge.

    found = run(emulated, schedule, port=("s1", "h6"))

It knows nothing of flow-scheduling schemes; `emulation.stack.schemes` has those.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from controller.switch_queues.model import QueueCounters
from emulation.fabric.fabric import EmulatedFabric
from emulation.fabric.ports import PortCounters
from emulation.measuring.confidence import Confidence, Disturbance, Level, judge
from emulation.measuring.fidelity import CpuTimes, Fidelity, Waits
from emulation.measuring.measure import percentile
from emulation.measuring.spacing import LinkSpacing, record
from emulation.measuring.wakeful import wakeful
from emulation.traffic import flow_load, workloads
from emulation.traffic.flow_schedule import Schedule, ScheduledFlow
from emulation.traffic.programs import Program, sleep_until
from topology.fabric import DirectedLink

PORT = 6000
GIVEN_UP = ("aborted", "given up")
"""The ends of flows that their senders terminated."""
START_NS = 700_000_000  # until every program has started
MAX_STALL_NS = 10_000_000
"""If a timer of real-time priority was ever later than this, the machine stood still, which distorts completion times."""


@dataclass(frozen=True, slots=True)
class FlowResult:
    """How a flow fared. `fct_ns`: from its application's connect to the last byte at its receiver; None if not all arrived.

    `end`, by the sender: "complete", "aborted" or "unfinished" (the run ended first); or "given up" by MCP.
    """

    flow: ScheduledFlow
    start_ns: int  # the actual start, after the beginning
    fct_ns: int | None
    received_bytes: int
    retransmits: int
    congestion_control: str
    end: str
    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the flow has a deadline and met it. A flow that was given up did not, as in the paper."""
        if self.fct_ns is None or self.flow.deadline_ms is None or self.end in GIVEN_UP:
            return False
        return self.fct_ns <= self.flow.deadline_ms * 1e6

    def row(self) -> dict[str, Any]:
        """The flow's line in the raw data."""
        flow = self.flow
        return {
            "flow": flow.number,
            "source": flow.source,
            "destination": flow.destination,
            "type": flow.flow_type,
            "size_bytes": flow.size_bytes,
            "deadline_ms": flow.deadline_ms,
            "scheduled_ns": flow.start_ns,
            "start_ns": self.start_ns,
            "fct_ns": self.fct_ns,
            "received_bytes": self.received_bytes,
            "retransmits": self.retransmits,
            "congestion_control": self.congestion_control,
            "end": self.end,
            **({"buckets": self.buckets} if self.buckets else {}),
        }


@dataclass(frozen=True, slots=True)
class FlowRun:
    """One run: every flow's result, by number; counters of the observed port and its queues since the warm-up; whether the
    machine kept up in all.

    `frames`: how many reached the port in all, with the warm-up. `lost`: the packets that the switches' ports dropped since
    the warm-up, by link, where there are any.
    """

    results: tuple[FlowResult, ...]
    length_ns: int
    port: DirectedLink
    sent_packets: int
    frames: int
    late_p99_ns: int
    overruns: int
    switch_wait_ns: int
    fidelity: Fidelity
    queues: tuple[QueueCounters, ...] = ()
    waits: Mapping[str, int] = field(default_factory=dict)
    spacing: Mapping[DirectedLink, LinkSpacing] = field(default_factory=dict)
    lost: Mapping[DirectedLink, int] = field(default_factory=dict)

    @property
    def drops(self) -> int:
        """The packets that the observed port dropped since the warm-up."""
        return self.lost.get(self.port, 0)

    @property
    def valid(self) -> bool:
        """Whether the machine kept up: nothing was disturbed beyond its limit."""
        return self.confidence().level in (Level.EXACT, Level.GOOD)

    def confidence(self) -> Confidence:
        """How sure the figures are: whether processors were saturated, flows started in time, a late switch lost frames."""
        longest_ns = max(self.fidelity.late_ns, default=0)
        stall = Disturbance(f"the machine stood still for {longest_ns / 1e6:.0f} ms", 0.0, longest_ns, figures=("ping",))
        return judge(
            self.fidelity,
            duration_ns=self.length_ns,
            switch_wait_ns=self.switch_wait_ns,
            overruns=self.overruns,
            frames=self.frames,
            late_start_ns=self.late_p99_ns,
            waits=self.waits,
            more=(stall,) if longest_ns > MAX_STALL_NS else (),
        )

    def trust(self) -> dict[str, Any]:
        """How far to trust the run, for the record of a result."""
        return {
            "confidence": self.confidence().to_dict(),
            "cpu": self.fidelity.to_dict(),
            "flow_start_late_p99_ms": round(self.late_p99_ns / 1e6, 3),
            "switch_waited_ms": round(self.switch_wait_ns / 1e6, 1),
            "overruns": self.overruns,
            "fidelity": record({"-".join(link): spacing for link, spacing in self.spacing.items()}),
            "drops": self.drops,
            "sent_packets": self.sent_packets,
        }


def run(
    emulated: EmulatedFabric,
    schedule: Schedule,
    *,
    port: tuple[str, str],
    drain_s: float = 3.0,
    dscp: Mapping[int, int] | None = None,
    control: Callable[[ScheduledFlow], str | None] = lambda flow: None,
    given_up: Callable[[], Collection[tuple[str, int]]] | None = None,
    bucket_ns: int = 0,
    host_queues: bool = True,
    warmed_up: Callable[[], None] = lambda: None,
    progress: Callable[[float], None] | None = None,
) -> FlowRun:
    """Runs the list, and waits up to `drain_s` after its last arrival for flows still under way.

    Args:
        port: the directed link (switch, neighbour) whose packets and queues are counted.
        dscp: the DSCP that each flow's application sets, by the flow's number; None: no application sets one.
        control: the congestion control that each flow's application chooses; None: what the host gives it.
        given_up: gives the sender's address and port of each connection that MCP gave up; called now and then, and at the end.
        bucket_ns: if not 0, each flow's received bytes are counted in buckets of this length too.
        host_queues: False while agents have queues of their own at the hosts' interfaces.
        warmed_up: called once, when the schedule's warm-up is over.
        progress: called about ten times a second with the seconds since the beginning.

    Raises:
        EmulationError: a program failed; says how.
    """
    emulated.verify(hosts=host_queues)
    link = DirectedLink(*port)
    with ExitStack() as stack:
        stack.enter_context(wakeful())
        begin_ns = time.monotonic_ns() + START_NS
        end_ns = begin_ns + schedule.length_ns
        until_ns = end_ns + round(drain_s * 1e9)
        receivers = _start_receivers(emulated, schedule, (begin_ns, until_ns), bucket_ns, stack)
        senders = _start_senders(emulated, schedule, (begin_ns, until_ns), dscp, control, stack)
        times = ("--begin-ns", str(begin_ns), "--end-ns", str(end_ns))
        timer = Program(emulated, None, [*workloads.COMMAND, "timer-probe", *times], stack)

        sleep_until(begin_ns, begin_ns, progress)
        emulated.recorders.reset()
        first, cpu = emulated.counters(link), CpuTimes.now()
        emulated.ovs.overruns()
        waited_ns, waits = emulated.ovs.waited_ns(), Waits.now()

        def tell(seconds: float) -> None:
            if given_up is not None:
                given_up()  # or the kernel's ring would fill up in a long run
            if progress is not None:
                progress(seconds)

        sleep_until(begin_ns + schedule.warm_up_ns, begin_ns, tell)
        warm = _Counted.now(emulated, link)
        warmed_up()
        sleep_until(end_ns, begin_ns, tell)
        fidelity_until, waited_ns = CpuTimes.now(), emulated.ovs.waited_ns() - waited_ns
        waited = Waits.now().since(waits)
        spacing = emulated.recorders.read()
        sent = _rows(senders, until_ns)
        received = _rows(receivers, until_ns)
        late_ns = timer.result(until_ns)["late_ns"]
        last = _Counted.now(emulated, link)
        overruns = emulated.ovs.overruns()
    if given_up is not None:
        _mark_given_up(emulated, schedule, sent, frozenset(given_up()))
    return FlowRun(
        results=tuple(_result(flow, sent.get(flow.number), received.get(flow.number), begin_ns) for flow in schedule.flows),
        length_ns=schedule.length_ns,
        port=link,
        sent_packets=last.port.sent_packets - warm.port.sent_packets,
        frames=last.port.sent_packets + last.port.drops - first.sent_packets - first.drops,
        late_p99_ns=int(percentile((row["late_ns"] for row in sent.values()), 99) or 0),
        overruns=overruns,
        switch_wait_ns=waited_ns,
        fidelity=Fidelity.between(cpu, fidelity_until, late_ns),
        queues=tuple(now.since(before) for now, before in zip(last.queues, warm.queues, strict=True)),
        waits=waited,
        spacing=spacing,
        lost={at: drops - warm.drops[at] for at, drops in last.drops.items() if drops > warm.drops[at]},
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """What the switches' ports have counted by an instant: the observed port, its queues, and the drops of all ports."""

    port: PortCounters
    queues: tuple[QueueCounters, ...]
    drops: Mapping[DirectedLink, int]

    @classmethod
    def now(cls, emulated: EmulatedFabric, link: DirectedLink) -> _Counted:
        return cls(emulated.counters(link), emulated.queue_counters(link), emulated.drops())


def _start_receivers(
    emulated: EmulatedFabric, schedule: Schedule, times: tuple[int, int], bucket_ns: int, stack: ExitStack
) -> dict[str, Program]:
    """Starts a program at each destination, and waits until all listen. `times`: of the beginning, and of the end."""
    begin_ns, until_ns = times
    limits = ("--until-ns", str(until_ns), "--from-ns", str(begin_ns), "--bucket-ns", str(bucket_ns))
    receivers = {}
    for name, count in Counter(flow.destination for flow in schedule.flows).items():
        own = ("--control", emulated.congestion_control, "--port", str(PORT), "--flows", str(count))
        receivers[name] = Program(emulated, name, [*flow_load.COMMAND, "serve", *own, *limits], stack)
    for program in receivers.values():
        program.wait_ready()
    return receivers


def _start_senders(
    emulated: EmulatedFabric,
    schedule: Schedule,
    times: tuple[int, int],
    dscp: Mapping[int, int] | None,
    control: Callable[[ScheduledFlow], str | None],
    stack: ExitStack,
) -> dict[str, Program]:
    """Starts a program at each source, which reads the flows that it is to send. `times`: of the beginning, and of the end."""
    begin_ns, until_ns = times
    addresses = _addresses(emulated)
    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for flow in schedule.flows:
        line = {
            "flow": flow.number,
            "start_ns": begin_ns + flow.start_ns,
            "to": addresses[flow.destination],
            "port": PORT,
            "size": flow.size_bytes,
            "mark": flow.mark().encode(),
            "dscp": None if dscp is None else dscp[flow.number],
            "control": control(flow),
        }
        wanted[flow.source].append(f"{json.dumps(line)}\n")
    command = [*flow_load.COMMAND, "send", "--until-ns", str(until_ns)]
    return {name: Program(emulated, name, command, stack, "".join(lines)) for name, lines in wanted.items()}


def _mark_given_up(
    emulated: EmulatedFabric, schedule: Schedule, sent: Mapping[int, dict[str, Any]], gone: Collection[tuple[str, int]]
) -> None:
    """Says "given up" in the senders' rows of those flows whose connections MCP gave up."""
    addresses = _addresses(emulated)
    for flow in schedule.flows:
        row = sent.get(flow.number)
        if row is not None and (addresses[flow.source], row["source_port"]) in gone:
            row["end"] = "given up"


def _addresses(emulated: EmulatedFabric) -> dict[str, str]:
    return {name: str(address) for name, address in emulated.endpoints().items()}


def _result(flow: ScheduledFlow, sent: Mapping[str, Any] | None, got: Mapping[str, Any] | None, begin_ns: int) -> FlowResult:
    if sent is None:
        return FlowResult(flow, flow.start_ns, None, 0, 0, "", "unfinished")
    start_ns = sent["start_ns"]
    return FlowResult(
        flow,
        start_ns - begin_ns,
        got["last_ns"] - start_ns if got is not None and got["complete"] else None,
        got["bytes"] if got is not None else 0,
        sent["retransmits"],
        sent["control"],
        sent["end"],
        {int(number): size for number, size in got["buckets"].items()} if got is not None and "buckets" in got else {},
    )


def _rows(programs: Mapping[str, Program], until_ns: int) -> dict[int, dict[str, Any]]:
    rows = [json.loads(line) for program in programs.values() for line in program.output(until_ns).splitlines()]
    return {row["flow"]: row for row in rows if "flow" in row}
