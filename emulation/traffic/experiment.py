"""Runs flows over an emulated fabric and measures them. An edge: starts programs in hosts.

    outcome = run(emulated, [Flow("udp", "h1", "h6"), Flow("tcp", "h2", "h6")], duration_s=5, bottlenecks=[("s1", "h6")])

It knows nothing of policies: whoever wants the fabric coordinated has the coordinator and the agents running by then.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

from emulation.fabric.fabric import EmulatedFabric, EmulationError
from emulation.fabric.ports import Occupancy, OccupancySampler, PortCounters
from emulation.measuring.fidelity import MAX_SWITCH_WAIT, CpuTimes, Fidelity
from emulation.measuring.measure import Pings, jain, rate_mbps
from emulation.measuring.wakeful import wakeful
from emulation.traffic import workloads
from topology.fabric import DirectedLink

FIRST_PORT = 5001
START_NS = 600_000_000  # for every program to be up and every connection made
END_TIMEOUT_S = 10
MAX_OVERRUN_FRACTION = 0.001
_PIPES: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@dataclass(frozen=True, slots=True)
class Flow:
    """One application's traffic between two endpoints (hosts or VMs, by name); the fields are the options of workloads.py."""

    kind: Literal["udp", "tcp"]
    source: str
    destination: str
    rate_bps: int = 0  # 0: as fast as it goes
    size: int = workloads.DATAGRAM_BYTES
    on_ns: int = 0
    off_ns: int = 0  # 0: always on
    phase_ns: int = 0  # of its first on-phase, after the beginning


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """What the receiving application got of a flow in the measured time, and what the sender said."""

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
        """Of the packets that were to be sent."""
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
    overruns: int = 0  # frames the emulation lost where a real switch would not: it was late
    switch_wait_ns: int = 0  # how long the switch was ready to run and had no processor

    @property
    def valid(self) -> bool:
        """Whether the machine kept up, so that these are results."""
        frames = sum(port.sent + port.drops for port in self.ports.values())
        moving = self.switch_wait_ns <= self.duration_ns * MAX_SWITCH_WAIT
        return not self.fidelity.saturated and moving and self.overruns <= frames * MAX_OVERRUN_FRACTION

    @property
    def goodput_mbps(self) -> float:
        """All flows together, as received by applications."""
        return sum(flow.goodput_mbps for flow in self.flows)

    @property
    def tcp_mean_mbps(self) -> float | None:
        """The mean over the TCP flows; None without any."""
        rates = [flow.goodput_mbps for flow in self.flows if flow.flow.kind == "tcp"]
        return sum(rates) / len(rates) if rates else None

    @property
    def jain(self) -> float:
        """Jain's index over all flows."""
        return jain(flow.goodput_mbps for flow in self.flows)

    @property
    def drops(self) -> int:
        """Packets dropped at all the observed ports."""
        return sum(port.drops + port.control_drops for port in self.ports.values())

    def to_dict(self) -> dict[str, Any]:
        """For a result's record."""
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
            "valid": self.valid,
        }


def run(
    emulated: EmulatedFabric,
    flows: Sequence[Flow],
    *,
    duration_s: float = 5.0,
    warmup_s: float = 1.0,
    bottlenecks: Sequence[tuple[str, str]] = (),
    ping: tuple[str, str] | None = None,
    bucket_ns: int = 0,
    sample_occupancy: bool = False,
    events: Sequence[tuple[float, Callable[[], None]]] = (),
    host_queues: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Outcome:
    """Runs flows together: they start at once, are measured after the warm-up, and end with the measurement.

    Args:
        bottlenecks: the directed links (switch, neighbour) whose ports are observed.
        ping: (from, to), endpoints; a request every 10 ms during the measurement.
        bucket_ns: if not 0, each flow's received bytes are counted in buckets of this length too.
        sample_occupancy: the queues of the observed ports are sampled every millisecond.
        events: (seconds after the measurement's begin, what to do then), in order of time.
        host_queues: False while agents have queues of their own at the hosts' interfaces.
        progress: called about ten times a second with the seconds since the start.

    Raises:
        EmulationError: a program failed; its last words are in the text.
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
        receivers = _start_receivers(emulated, ports, window, stack)
        senders = {
            flow: _Program(emulated, flow.source, _sender_options(flow, port, addresses, begin_ns, until_ns), stack)
            for flow, port in ports.items()
        }
        times = ("--begin-ns", str(from_ns), "--end-ns", str(until_ns))
        timer = _Program(emulated, None, ("timer-probe", *times), stack)
        prober = None
        if ping is not None:
            prober = _Program(emulated, ping[0], ("echo", "--to", str(addresses[ping[1]]), *times), stack)
        clock = _Clock(begin_ns, progress)
        clock.sleep_until(from_ns)
        before = {link: emulated.counters(link) for link in links}
        emulated.ovs.overruns()
        cpu_before, waited_ns = CpuTimes.now(), emulated.ovs.waited_ns()
        with ExitStack() as sampling:
            sampler = OccupancySampler([emulated.ports[link] for link in links] if sample_occupancy else [])
            if sample_occupancy:
                sampling.enter_context(sampler)
            for after_s, action in events:
                clock.sleep_until(from_ns + round(after_s * 1e9))
                action()
            clock.sleep_until(until_ns)
            cpu_after, waited_ns = CpuTimes.now(), emulated.ovs.waited_ns() - waited_ns
            after = {link: emulated.counters(link) for link in links}
            overruns = emulated.ovs.overruns()
        received = {name: program.result() for name, program in receivers.items()}
        sent = {flow: program.result() for flow, program in senders.items()}
        late_ns = timer.result()["late_ns"]
        pings = Pings.of_probe(prober.result()) if prober is not None else Pings()
    return Outcome(
        duration_ns=until_ns - from_ns,
        started_ns=from_ns,
        flows=tuple(
            _flow_outcome(flow, str(port), received[flow.destination], sent[flow], until_ns - from_ns)
            for flow, port in ports.items()
        ),
        ports={link: _port_outcome(before[link], after[link]) for link in links},
        pings=pings,
        fidelity=Fidelity.between(cpu_before, cpu_after, late_ns),
        occupancy={link: sampler.occupancy(emulated.ports[link]) for link in links} if sample_occupancy else {},
        overruns=overruns,
        switch_wait_ns=waited_ns,
    )


class _Program:
    """A traffic program in a node (or beside them all), killed when the stack unwinds before it has ended."""

    def __init__(self, emulated: EmulatedFabric, node: str | None, options: Sequence[str], stack: ExitStack) -> None:
        self.name = f"{node or 'beside'}: {options[0]}"
        argv = [*workloads.COMMAND, *options]
        self.process = subprocess.Popen(argv, **_PIPES) if node is None else emulated.popen(node, argv, **_PIPES)
        stack.callback(_end, self.process)

    def wait_ready(self) -> None:
        """Returns when the program has said that it is ready."""
        assert self.process.stdout is not None, "a pipe"
        if self.process.stdout.readline().strip() != workloads.READY:
            _output(self.process, self.name)
            raise EmulationError(f"{self.name} did not get ready")

    def result(self) -> dict[str, Any]:
        """Waits for its end; what it printed."""
        found: dict[str, Any] = json.loads(_output(self.process, self.name))
        return found


class _Clock:
    """Sleeps, telling how far it is."""

    def __init__(self, begin_ns: int, progress: Callable[[float], None] | None) -> None:
        self._begin_ns = begin_ns
        self._progress = progress

    def sleep_until(self, instant_ns: int) -> None:
        while (left_ns := instant_ns - time.monotonic_ns()) > 0:
            if self._progress is not None:
                self._progress(max(0.0, (time.monotonic_ns() - self._begin_ns) / 1e9))
            time.sleep(min(left_ns / 1e9, 0.1))


def _start_receivers(
    emulated: EmulatedFabric, ports: Mapping[Flow, int], window: Sequence[str], stack: ExitStack
) -> dict[str, _Program]:
    wanted: defaultdict[str, dict[str, list[str]]] = defaultdict(lambda: {"udp": [], "tcp": []})
    for flow, port in ports.items():
        wanted[flow.destination][flow.kind].append(str(port))
    addresses = emulated.endpoints()
    receivers = {}
    for name, kinds in wanted.items():
        family = ("--ipv6",) if addresses[name].version == 6 else ()
        listen = ("--udp", *kinds["udp"], "--tcp", *kinds["tcp"])
        receivers[name] = _Program(emulated, name, ("receive", *listen, *family, *window), stack)
    for receiver in receivers.values():
        receiver.wait_ready()
    return receivers


def _sender_options(flow: Flow, port: int, addresses: Mapping[str, Any], begin_ns: int, end_ns: int) -> list[str]:
    options = {
        "to": addresses[flow.destination],
        "port": port,
        "size": flow.size,
        "begin-ns": begin_ns,
        "end-ns": end_ns,
        "rate-bps": flow.rate_bps,
        "on-ns": flow.on_ns,
        "off-ns": flow.off_ns,
        "phase-ns": flow.phase_ns,
    }
    return [f"{flow.kind}-send", *(word for name, value in options.items() for word in (f"--{name}", str(value)))]


def _output(process: subprocess.Popen[str], name: str) -> str:
    try:
        out, error = process.communicate(timeout=END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise EmulationError(f"{name} did not end within {END_TIMEOUT_S} s after the measurement") from None
    if process.returncode:
        lines = error.strip().splitlines()
        raise EmulationError(f"{name} failed: {lines[-1] if lines else process.returncode}")
    return out


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()


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
