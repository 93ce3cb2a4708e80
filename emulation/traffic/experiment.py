"""Runs flows over an emulated fabric and measures them. An edge: starts programs in hosts.

    outcome = run(emulated, [Flow("udp", "h1", "h6"), Flow("tcp", "h2", "h6")], duration_s=5, bottlenecks=[("s1", "h6")])

It knows nothing of policies: to measure a coordinated fabric, start coordinator and agents first.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from emulation.fabric.cpu_shares import Throttling
from emulation.fabric.fabric import EmulatedFabric, EmulationError
from emulation.fabric.ports import Occupancy, OccupancySampler, PortCounters
from emulation.measuring.confidence import Confidence, Disturbance, Level, judge
from emulation.measuring.fidelity import CpuTimes, Fidelity, Waits
from emulation.measuring.measure import Pings, jain, rate_mbps
from emulation.measuring.spacing import LinkSpacing, record
from emulation.measuring.wakeful import wakeful
from emulation.traffic import request_load, workloads
from emulation.traffic.programs import Program, sleep_until
from topology.fabric import DirectedLink

FIRST_PORT = 5001
FRAGMENT_BYTES = 1480  # of a datagram, in an Ethernet frame
START_NS = 600_000_000  # until every program has started and every connection is made


@dataclass(frozen=True, slots=True)
class Flow:
    """One application's traffic between two endpoints (hosts or VMs, by name); the fields are the options of workloads.py.

    Kinds beside "udp" and "tcp" (request_load.py): "short", `count` sequences of TCP connections of `size` bytes each; "block",
    blocks of `size` bytes, which the destination asks of all its sources at once, and again when the last of them has arrived.
    """

    kind: Literal["udp", "tcp", "short", "block"]
    source: str
    destination: str
    rate_bps: int = 0  # 0: as fast as it goes
    size: int = workloads.DATAGRAM_BYTES
    on_ns: int = 0
    off_ns: int = 0  # 0: always on
    phase_ns: int = 0  # of its first on-phase, after the beginning
    total: int = 0  # TCP: it ends after so many bytes; 0: it does not
    count: int = 1  # of sequences, or of TCP connections
    trace_ns: int = 0  # TCP: samples the connections so often (see workloads.tcp_send); 0: not


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """What the receiving application got of a flow in the measured time, and what the sender reported."""

    flow: Flow
    received_bytes: int
    goodput_mbps: float
    buckets: tuple[int, ...] = ()  # bytes received in each bucket of time
    sender: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PortOutcome:
    """What a switch port sent and dropped in the measured time, in packets; control frames apart."""

    sent: int
    drops: int
    control_sent: int
    control_drops: int

    @property
    def drop_fraction(self) -> float:
        """Drops over the packets that reached the port."""
        return self.drops / (self.sent + self.drops) if self.sent + self.drops else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run's results."""

    duration_ns: int
    started_ns: int  # CLOCK_MONOTONIC of the first measured instant
    flows: tuple[FlowOutcome, ...]
    ports: Mapping[DirectedLink, PortOutcome]
    pings: Pings
    fidelity: Fidelity
    occupancy: Mapping[DirectedLink, Occupancy]
    overruns: int = 0  # frames that the emulated switch lost because it was late, as no real one does
    switch_wait_ns: int = 0  # how long the switch was ready to run and had no processor
    waits: Mapping[str, int] = field(default_factory=dict)  # the same of each process, by its name in a sentence
    spacing: Mapping[DirectedLink, LinkSpacing] = field(default_factory=dict)  # how exactly packets left, of every link
    throttled: Mapping[str, Throttling] = field(default_factory=dict)  # of each host with a share of a processor
    rounds_ns: tuple[int, ...] = ()  # how long each round of blocks took that ended in the measured time
    begun_late_ns: int = 0  # of the measured time: how much was over when the last program was started

    @property
    def valid(self) -> bool:
        """Whether the machine kept up: nothing was disturbed beyond its limit."""
        return self.confidence().level in (Level.EXACT, Level.GOOD)

    def confidence(self, slots: int = 0, late_slots: int = 0) -> Confidence:
        """How sure the figures are; `late_slots`: of the slots that the coordinator granted meanwhile, those begun late."""
        sent = sum(port.sent for port in self.ports.values())
        frames = sent + sum(port.drops for port in self.ports.values())
        # A lost frame costs its whole datagram, if the port would have passed it.
        late = Disturbance(
            f"programs were still being started for {self.begun_late_ns / 1e6:.0f} ms of the measurement",
            self.begun_late_ns / self.duration_ns,
        )
        datagram = max((-(-flow.flow.size // FRAGMENT_BYTES) for flow in self.flows if flow.flow.kind == "udp"), default=1)
        return judge(
            self.fidelity,
            duration_ns=self.duration_ns,
            switch_wait_ns=self.switch_wait_ns,
            overruns=self.overruns,
            frames=frames,
            frames_each=datagram * sent / max(1, frames),
            slots=slots,
            late_slots=late_slots,
            waits=self.waits,
            links={"-".join(link): error for link, found in self.spacing.items() if (error := found.error(99.9)) is not None},
            more=(late,) if self.begun_late_ns else (),
        )

    @property
    def goodput_mbps(self) -> float:
        """Of all flows together, as received by applications."""
        return sum(flow.goodput_mbps for flow in self.flows)

    @property
    def tcp_mean_mbps(self) -> float | None:
        """The mean goodput of the TCP flows; None if there are none."""
        rates = [flow.goodput_mbps for flow in self.flows if flow.flow.kind == "tcp"]
        return sum(rates) / len(rates) if rates else None

    @property
    def jain(self) -> float:
        """Jain's index over all flows."""
        return jain(flow.goodput_mbps for flow in self.flows)

    @property
    def drops(self) -> int:
        """Packets that the observed ports dropped."""
        return sum(port.drops + port.control_drops for port in self.ports.values())

    def to_dict(self) -> dict[str, Any]:
        """The outcome in the record of a result."""
        return {
            "duration_s": self.duration_ns / 1e9,
            "goodput_mbps": round(self.goodput_mbps, 2),
            "tcp_mean_mbps": None if self.tcp_mean_mbps is None else round(self.tcp_mean_mbps, 2),
            "jain": round(self.jain, 4),
            "drops": self.drops,
            "drop_fraction": round(max((port.drop_fraction for port in self.ports.values()), default=0.0), 6),
            "rtt_ms": self.pings.summary(),
            "pings": {"sent": self.pings.sent, "lost": self.pings.lost},
            "flows": [
                {
                    "kind": flow.flow.kind,
                    "source": flow.flow.source,
                    "destination": flow.flow.destination,
                    "goodput_mbps": round(flow.goodput_mbps, 2),
                    **flow.sender,
                }
                for flow in self.flows
            ],
            "cpu": self.fidelity.to_dict(),
            "overruns": self.overruns,
            "switch_waited_ms": round(self.switch_wait_ns / 1e6, 1),
            "fidelity": record({"-".join(link): spacing for link, spacing in self.spacing.items()}),
            **({"throttled": {host: found.to_dict() for host, found in self.throttled.items()}} if self.throttled else {}),
            "confidence": self.confidence().to_dict(),
        }


def run(
    emulated: EmulatedFabric,
    flows: Sequence[Flow],
    *,
    duration_s: float = 5.0,
    warmup_s: float = 1.0,
    bottlenecks: Sequence[tuple[str, str]] = (),
    ping: tuple[str, str] | None = None,
    ping_interval_ns: int = 10_000_000,
    bucket_ns: int = 0,
    sample_occupancy: bool = False,
    events: Sequence[tuple[float, Callable[[], None]]] = (),
    host_queues: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Outcome:
    """Runs flows together: they start at once, are measured after the warm-up, and end with the measurement.

    Args:
        bottlenecks: the directed links (switch, neighbour) whose ports are observed.
        ping: two endpoints (from, to); sends a request every `ping_interval_ns` during the measurement.
        bucket_ns: if not 0, each flow's received bytes are counted in buckets of this length too.
        sample_occupancy: whether to sample the queues of the observed ports every millisecond.
        events: (seconds after the measurement's begin, what to do then), in order of time.
        host_queues: False while agents have queues of their own at the hosts' interfaces.
        progress: called about ten times a second with the seconds since the start.

    Raises:
        EmulationError: a program failed, or two flows are the same, or an endpoint is unknown.
    """
    addresses = emulated.endpoints()
    for flow in flows:
        for end in (flow.source, flow.destination):
            if end not in addresses:
                raise EmulationError(f"experiment: {end!r} is no endpoint; name one of {', '.join(addresses)}")
    emulated.verify(hosts=host_queues)
    links = [DirectedLink(*link) for link in bottlenecks]
    ports = {flow: FIRST_PORT + number for number, flow in enumerate(flows)}
    if len(ports) != len(flows):
        raise EmulationError("experiment: two flows are the same; let them differ in something, such as the size")
    with ExitStack() as stack:
        stack.enter_context(wakeful())
        begin_ns = time.monotonic_ns() + START_NS
        from_ns = begin_ns + round(warmup_s * 1e9)
        until_ns = from_ns + round(duration_s * 1e9)
        window = ("--from-ns", str(from_ns), "--until-ns", str(until_ns), "--bucket-ns", str(bucket_ns))
        asked = {flow: port for flow, port in ports.items() if flow.kind == "block"}
        receivers = _start_receivers(emulated, {flow: port for flow, port in ports.items() if flow not in asked}, window, stack)
        instants = (begin_ns, from_ns, until_ns)
        senders = {
            flow: Program(emulated, flow.source, _sender_command(flow, port, addresses, instants), stack)
            for flow, port in ports.items()
        }
        for flow in asked:
            senders[flow].wait_ready()
        askers = _start_askers(emulated, asked, begin_ns, window, stack)
        times = ("--begin-ns", str(from_ns), "--end-ns", str(until_ns))
        timer = Program(emulated, None, (*workloads.COMMAND, "timer-probe", *times), stack)
        prober = None
        if ping is not None:
            echo = (*workloads.COMMAND, "echo", "--to", str(addresses[ping[1]]), "--interval-ns", str(ping_interval_ns), *times)
            prober = Program(emulated, ping[0], echo, stack)
        begun_late_ns = max(0, time.monotonic_ns() - from_ns)
        sleep_until(from_ns, begin_ns, progress)
        before = {link: emulated.counters(link) for link in links}
        throttled = emulated.shares.throttling() if emulated.shares is not None else {}
        emulated.recorders.reset()
        emulated.ovs.overruns()
        cpu_before, waited_ns, waits = CpuTimes.now(), emulated.ovs.waited_ns(), Waits.now()
        with ExitStack() as sampling:
            sampler = OccupancySampler([emulated.ports[link] for link in links] if sample_occupancy else [])
            if sample_occupancy:
                sampling.enter_context(sampler)
            for after_s, action in events:
                sleep_until(from_ns + round(after_s * 1e9), begin_ns, progress)
                action()
            sleep_until(until_ns, begin_ns, progress)
            cpu_after, waited_ns, waited = CpuTimes.now(), emulated.ovs.waited_ns() - waited_ns, Waits.now().since(waits)
            spacing = emulated.recorders.read()
            used_up = emulated.shares.throttling() if emulated.shares is not None else {}
            after = {link: emulated.counters(link) for link in links}
            overruns = emulated.ovs.overruns()
        received = {name: program.result() for name, program in receivers.items()}
        blocks = {name: program.result() for name, program in askers.items()}
        sent = {flow: program.result() for flow, program in senders.items()}
        late_ns = timer.result()["late_ns"]
        pings = Pings.of_probe(prober.result()) if prober is not None else Pings()
    return Outcome(
        duration_ns=until_ns - from_ns,
        started_ns=from_ns,
        flows=tuple(
            _flow_outcome(
                flow, str(port), (blocks if flow in asked else received)[flow.destination], sent[flow], until_ns - from_ns
            )
            for flow, port in ports.items()
        ),
        ports={link: _port_outcome(before[link], after[link]) for link in links},
        pings=pings,
        fidelity=Fidelity.between(cpu_before, cpu_after, late_ns),
        # Once the flows have ended, the queues are empty; meanwhile counters are read.
        occupancy={link: sampler.occupancy(emulated.ports[link], until_ns) for link in links} if sample_occupancy else {},
        overruns=overruns,
        switch_wait_ns=waited_ns,
        waits=waited,
        spacing=spacing,
        throttled={host: now.since(throttled[host]) for host, now in used_up.items()},
        rounds_ns=tuple(round_ns for found in blocks.values() for round_ns in found["rounds_ns"]),
        begun_late_ns=begun_late_ns,
    )


def _start_receivers(
    emulated: EmulatedFabric, ports: Mapping[Flow, int], window: Sequence[str], stack: ExitStack
) -> dict[str, Program]:
    wanted: defaultdict[str, dict[str, list[str]]] = defaultdict(lambda: {"udp": [], "tcp": []})
    for flow, port in ports.items():
        wanted[flow.destination]["udp" if flow.kind == "udp" else "tcp"].append(str(port))
    addresses = emulated.endpoints()
    receivers = {}
    for name, kinds in wanted.items():
        family = ("--ipv6",) if addresses[name].version == 6 else ()
        listen = ("--udp", *kinds["udp"], "--tcp", *kinds["tcp"])
        receivers[name] = Program(emulated, name, (*workloads.COMMAND, "receive", *listen, *family, *window), stack)
    for receiver in receivers.values():
        receiver.wait_ready()
    return receivers


def _start_askers(
    emulated: EmulatedFabric, ports: Mapping[Flow, int], begin_ns: int, window: Sequence[str], stack: ExitStack
) -> dict[str, Program]:
    """Starts the program that asks for blocks at every destination of such flows."""
    addresses = emulated.endpoints()
    askers = {}
    for name in dict.fromkeys(flow.destination for flow in ports):
        own = {flow: port for flow, port in ports.items() if flow.destination == name}
        sizes = {flow.size for flow in own}
        if len(sizes) > 1:
            raise EmulationError(f"experiment: {name} asks for blocks of {len(sizes)} sizes; give its flows one size")
        servers = [f"{addresses[flow.source]},{port}" for flow, port in own.items()]
        asked = ("--servers", *servers, "--size", str(sizes.pop()), "--begin-ns", str(begin_ns))
        askers[name] = Program(emulated, name, (*request_load.COMMAND, "request", *asked, *window), stack)
    return askers


def _sender_command(flow: Flow, port: int, addresses: Mapping[str, Any], instants: tuple[int, int, int]) -> list[str]:
    """`instants`: when the flows begin, when the measurement does, and when both end."""
    begin_ns, from_ns, end_ns = instants
    options: dict[str, object]
    if flow.kind == "block":
        program = (*request_load.COMMAND, "serve")
        options = {"address": addresses[flow.source], "port": port, "until-ns": end_ns}
    else:
        options = {"to": addresses[flow.destination], "port": port, "size": flow.size}
        options |= {"begin-ns": begin_ns, "end-ns": end_ns}
        if flow.kind == "short":
            program = (*request_load.COMMAND, "sequences")
            options |= {"count": flow.count, "from-ns": from_ns}
        else:
            program = (*workloads.COMMAND, f"{flow.kind}-send")
            options |= {"rate-bps": flow.rate_bps, "on-ns": flow.on_ns, "off-ns": flow.off_ns, "phase-ns": flow.phase_ns}
            options |= {"total": flow.total, "count": flow.count, "trace-ns": flow.trace_ns}
    words = (word for name, value in options.items() for word in (f"--{name}", str(value)))
    return [*program, *words]


def _flow_outcome(
    flow: Flow, port: str, received: Mapping[str, Any], sender: Mapping[str, Any], duration_ns: int
) -> FlowOutcome:
    size = received["bytes"][port]
    buckets = tuple(received["buckets"].get(port, ()))
    return FlowOutcome(flow, size, rate_mbps(size, duration_ns), buckets, sender)


def _port_outcome(before: PortCounters, after: PortCounters) -> PortOutcome:
    return PortOutcome(
        sent=after.data.sent_packets - before.data.sent_packets,
        drops=after.data.drops - before.data.drops,
        control_sent=after.control.sent_packets - before.control.sent_packets,
        control_drops=after.control.drops - before.control.drops,
    )
