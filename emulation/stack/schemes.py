"""Flow-scheduling schemes on an emulated star: Karuna's, and those it is compared with. An edge.

    with on_star(scheme) as star:
        choices = scheme.choices(schedule.flows, star.control)
        found = flow_run.run(star.emulated, schedule, port=BOTTLENECK, given_up=star.given_up, **choices)

One star, one scheme: hosts h1 to h5 send to h6 through one switch, over links of 100 Mb/s and buffers of 100 packets; a port
marks packets while all its queues together hold more than 20 (Mininet-HiFi's set-up; Karuna's threshold at 1 Gb/s is 20
packets, too, and 65 at 10 Gb/s, where a buffer is larger in proportion). Under a scheme with priorities the hosts' interfaces
serve them, too, as those of agents do, and the queues of short flows may have most of the switch's buffer; under any other one
queue has it all.

TCP's minimum retransmission timeout is 10 ms instead of 200 ms (PIAS' published simulations have 2 ms), since round trips are
short. At the end of the block everything is gone: the hosts' taggers and routes, the switch's queues, and the congestion
controls of this kernel if this process registered them.

Under Karuna the hosts report the flows that ended, and the controller's tuner and `Distribution` keep the thresholds
(emulation.stack.threshold_control); the agents' chooser gives each connection its congestion control by its mark. In a kernel
without struct_ops DCTCP is the kernel's own, and MCP's callbacks handle the connections whose mark has a deadline.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from agents.priorities.congestion_control import DCTCP, MCP, Chooser, CongestionControl, McpEnd, Outcome
from agents.priorities.mcp_settings import McpSettings, Termination
from agents.priorities.priorities import CROWD_PART
from agents.priorities.tagger import Tagger, TaggerSettings
from controller.coordinator.process import Helpers
from controller.priorities.completion_model import Thresholds
from controller.switch_queues.model import FIRST_QUEUES, SwitchQueues, shares
from emulation.fabric.fabric import EmulatedFabric
from emulation.netns import network_of
from emulation.stack.star import BOTTLENECK, BUFFER_PACKETS, RATE_BPS, RECEIVER, SENDERS
from emulation.stack.threshold_control import Kept, ThresholdControl
from emulation.traffic.fixed_priorities import DEADLINE_QUEUES
from emulation.traffic.fixed_priorities import edf as earliest_deadline
from emulation.traffic.fixed_priorities import sjf as shortest_job
from emulation.traffic.flow_schedule import ScheduledFlow
from protocol.units import FRAME_BYTES
from topology import shapes

PAIRS = tuple((sender, RECEIVER) for sender in SENDERS)
MARKING_PACKETS = 20
FAST_BPS, FAST_MARKING_PACKETS = 10_000_000_000, 65
"""From this rate on ports mark at so many packets."""
RTO_MIN_NS = 10_000_000
BANDS = 7
"""All that a switch of eight queues has below the one for type 1."""
REPORT_NS = 1_000_000_000
"""How often hosts report, and the tuner answers: ten times as often as by default, since a run is short."""
CUBIC = "cubic"

TAGGER = TaggerSettings(rto_ns=9 * RTO_MIN_NS // 10)
Fixed = Callable[[Sequence[ScheduledFlow]], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How flows are scheduled.

    `transport` is the congestion control of both ends, `deadline_transport` that of type 1's senders if it differs; DCTCP and
    MCP stand for what this kernel has; which connection gets which is the agents' chooser's choice. With `bands` every host has
    a tagger, whose thresholds are the tuner's, or `thresholds` if the experiment is about these; with `fixed` every application
    sets its flows' DSCPs, by the flow's number; never both. `marking_packets`: None for a switch that does not mark.
    `first_queues`: how many queues, down to that of the shortest flows without deadline, get the large share of the buffer.
    """

    name: str
    transport: str
    marking_packets: int | None = MARKING_PACKETS
    deadline_transport: str | None = None
    bands: int = 0
    thresholds: Thresholds | None = None
    fixed: Fixed | None = None
    first_queues: int = FIRST_QUEUES
    tagger: TaggerSettings = TAGGER
    termination: Termination = Termination.NEVER
    rate_bps: int = RATE_BPS

    def at_rate(self, rate_bps: int) -> Self:
        """The same on links of this rate."""
        marking = self.marking_packets and (FAST_MARKING_PACKETS if rate_bps >= FAST_BPS else MARKING_PACKETS)
        return dataclasses.replace(self, rate_bps=rate_bps, marking_packets=marking)

    @property
    def priorities(self) -> bool:
        """Whether packets have priorities, at hosts and in the switch."""
        return bool(self.bands or self.fixed)

    @property
    def buffer_packets(self) -> int:
        """The buffer of a port."""
        return BUFFER_PACKETS * (FAST_MARKING_PACKETS if self.rate_bps >= FAST_BPS else MARKING_PACKETS) // MARKING_PACKETS

    def choices(self, flows: Sequence[ScheduledFlow]) -> dict[str, Any]:
        """What applications choose under this scheme, as arguments of `flow_run.run`."""
        return {"dscp": None if self.fixed is None else self.fixed(flows)}

    def queues(self) -> SwitchQueues:
        """The queues of the switch's ports: always eight strict priorities; unmarked traffic shares the last, and without
        priorities that queue may have most of the buffer."""
        threshold = None if self.marking_packets is None else self.marking_packets * FRAME_BYTES
        found = SwitchQueues(
            buffer_packets=self.buffer_packets, share=shares(self.first_queues), marking_threshold_bytes=threshold
        )
        return found if self.priorities else found.alike()

    def to_dict(self) -> dict[str, Any]:
        """The scheme in the record of a result."""
        cuts = None if self.thresholds is None else {"beta": self.thresholds.beta, "alpha": self.thresholds.alpha}
        return {
            "name": self.name,
            "congestion_control": self.transport,
            "congestion_control_type_1": self.deadline_transport or self.transport,
            "marking_packets": self.marking_packets,
            "priorities": "tagger" if self.bands else "fixed" if self.fixed else "none",
            "bands": self.bands,
            "buffer_shares": self.queues().share,
            "host_priorities": self.priorities,
            "thresholds_bytes": cuts,
            "short_bytes": self.tagger.short_bytes if self.bands else None,
            "termination": self.termination.value,
            "rate_mbps": self.rate_bps / 1e6,
        }


def real_name(transport: str, control: CongestionControl | None) -> str:
    """The name that this kernel has for DCTCP, MCP or another congestion control."""
    return transport if control is None else {DCTCP: control.dctcp, MCP: control.mcp}.get(transport, transport)


def karuna(thresholds: Thresholds | None = None, bands: int = BANDS, **changes: Any) -> Scheme:  # noqa: ANN401 -- fields of Scheme
    """Karuna: type 1 first, at MCP's rate; types 2 and 3 in the bands below, with DCTCP.

    Args:
        thresholds: those of an experiment about them, for as many bands as they make; None: the tuner's.
    """
    bands = bands if thresholds is None else thresholds.bands
    first: dict[str, Any] = {"name": "karuna", "transport": DCTCP, "deadline_transport": MCP}
    return Scheme(**{**first, "bands": bands, "thresholds": thresholds, **changes})


def dctcp() -> Scheme:
    """One queue; DCTCP for all flows."""
    return Scheme("dctcp", DCTCP)


def cubic() -> Scheme:
    """One queue without marking; CUBIC for all flows."""
    return Scheme("cubic", CUBIC, marking_packets=None)


def sjf(cuts: Sequence[int]) -> Scheme:
    """pFabric with SJF, approximated (emulation.traffic.fixed_priorities), over DCTCP."""
    return Scheme("sjf", DCTCP, fixed=lambda flows: shortest_job(flows, cuts))


def edf(cuts: Sequence[int]) -> Scheme:
    """pFabric with EDF, approximated, over DCTCP."""
    return Scheme("edf", DCTCP, fixed=lambda flows: earliest_deadline(flows, cuts), first_queues=DEADLINE_QUEUES + 1)


Connection = tuple[str, int]
"""A sender's address and port."""


class SchemeStar(NamedTuple):
    """A running star under a scheme, the connections that MCP has given up so far (None: unknown), and the hosts' taggers.

    `control`: DCTCP and MCP as this kernel has them; None if the scheme has neither. `tuning`: call its `advance` ten times a
    second; None without taggers.
    """

    emulated: EmulatedFabric
    given_up: Callable[[], frozenset[Connection]] | None
    taggers: Sequence[Tagger]
    control: CongestionControl | None
    tuning: ThresholdControl | None


@contextmanager
def on_star(scheme: Scheme) -> Iterator[SchemeStar]:
    """Runs a star under the scheme.

    Raises:
        BuildError, BpfError: an eBPF program cannot be built or loaded here; says why.
        EmulationError: the fabric did not come up.
        NoCgroup: the scheme has MCP, and no cgroup version 2 is mounted.
    """
    with ExitStack() as stack:
        given_up = control = None
        if scheme.transport != CUBIC:
            marking = scheme.marking_packets or MARKING_PACKETS
            settings = McpSettings(
                link_bps=scheme.rate_bps,
                marking_packets=marking,
                termination=scheme.termination,
                crowd_packets=marking // CROWD_PART if scheme.bands else 0,
            )
            control = stack.enter_context(registered(settings, mcp=scheme.deadline_transport == MCP))
            given_up = _given_up(control)
            if scheme.deadline_transport == MCP:
                stack.callback(Chooser(unmarked=False, control=control).close)
        emulated = stack.enter_context(
            EmulatedFabric(
                shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=scheme.rate_bps),
                queues=scheme.queues(),
                host_priorities=scheme.priorities,
                congestion_control=real_name(scheme.transport, control),
                static_arp=True,
            )
        )
        taggers = []
        for host in emulated.fabric.hosts:
            set_tcp(emulated, host, ecn=scheme.transport != CUBIC)
            if scheme.bands:
                with network_of(emulated.node(host).pid):
                    tagger = Tagger(emulated.interface(host), scheme.tagger)
                stack.callback(tagger.close)
                taggers.append(tagger)
        tuning = stack.enter_context(_tuned(scheme, emulated, taggers)) if taggers else None
        yield SchemeStar(emulated, given_up, taggers, control, tuning)


@contextmanager
def _tuned(scheme: Scheme, emulated: EmulatedFabric, taggers: Sequence[Tagger]) -> Iterator[ThresholdControl]:
    helpers = Helpers()
    try:
        yield ThresholdControl(
            taggers,
            scheme.rate_bps,
            Kept(scheme.bands, REPORT_NS, scheme.termination, scheme.thresholds),
            start_tuner=helpers.start_tuner,
            sent_bytes=lambda: sum(queue.sent_bytes for queue in emulated.queue_counters(BOTTLENECK)),
            now_ns=time.monotonic_ns(),
        )
    finally:
        helpers.end()


@contextmanager
def registered(settings: McpSettings, *, mcp: bool = True) -> Iterator[CongestionControl]:
    """Registers DCTCP and, if wanted, MCP with this kernel, unless another process has, and gives MCP its settings.

    Raises:
        BuildError, BpfError, NoCgroup: an eBPF program cannot be built or loaded here; says why.
    """
    control = CongestionControl(settings, mcp=mcp)
    try:
        control.configure(settings)  # also if another process has registered MCP
        yield control
    finally:
        control.close()


def set_tcp(emulated: EmulatedFabric, host: str, *, ecn: bool) -> None:
    """Sets ECN and the minimum retransmission timeout, `RTO_MIN_NS`, of an emulated host."""
    sysctls = {"tcp_ecn": int(ecn), "tcp_rto_min_us": RTO_MIN_NS // 1000}
    # -e: before Linux 6.11 only routes have a minimum timeout; then it stays as it is.
    emulated.run_in(host, "sysctl", "-qew", *(f"net.ipv4.{name}={value}" for name, value in sysctls.items()))


def _given_up(control: CongestionControl) -> Callable[[], frozenset[Connection]] | None:
    found: set[Connection] = set()

    def take(end: McpEnd) -> None:
        if end.outcome is Outcome.GIVEN_UP:
            found.add((str(end.source), end.source_port))

    ring = control.ends(take)
    if ring is None:
        return None
    _, consume = ring

    def given_up() -> frozenset[Connection]:
        consume()
        return frozenset(found)

    return given_up
