"""Schemes of flow scheduling put on an emulated star: Karuna's, and what it is compared with. An edge.

    with on_star(scheme) as (emulated, given_up, _):
        found = flow_run.run(emulated, schedule, port=BOTTLENECK, given_up=given_up, **scheme.choices(schedule.flows))

One star, one scheme: hosts h1 to h5 send to h6 through one switch, 100 Mb/s a link, buffers of 100 packets, the port's sum of
queues marked above 20 packets (Mininet-HiFi's set-up; Karuna's threshold at 1 Gb/s is 20 packets, too). TCP's least timeout is
10 ms instead of 200 ms (PIAS' published simulations have 2 ms): round trips are short. All of it goes with the fabric: the
hosts' taggers and routes, the switch's queues, and the congestion controls of this kernel if they were registered here.

MCP is chosen by the traffic programs, after connect: the route's own congestion control replaces what was chosen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from agents.priorities.congestion_control import DCTCP, MCP, CongestionControl, McpEnd, Outcome, configure
from agents.priorities.mcp_model import McpSettings, Termination
from agents.priorities.tagger import Tagger, TaggerSettings
from controller.priorities.bands import Thresholds
from controller.switch_queues.model import SwitchQueues
from emulation.fabric.fabric import EmulatedFabric
from emulation.fabric.inside import network_of
from emulation.traffic.fixed_priorities import edf as earliest_deadline
from emulation.traffic.fixed_priorities import sjf as shortest_job
from emulation.traffic.flow_schedule import ScheduledFlow
from protocol.units import FRAME_BYTES
from topology import shapes

SENDERS = tuple(f"h{number}" for number in range(1, 6))
RECEIVER, SWITCH = "h6", "s1"
BOTTLENECK = (SWITCH, RECEIVER)
PAIRS = tuple((sender, RECEIVER) for sender in SENDERS)
RATE_BPS = 100_000_000
BUFFER_PACKETS = 100
MARKING_PACKETS = 20
RTO_MIN_NS = 10_000_000
CUBIC = "cubic"

TAGGER = TaggerSettings(rto_ns=9 * RTO_MIN_NS // 10)
Fixed = Callable[[Sequence[ScheduledFlow]], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How flows are scheduled.

    `transport` is the congestion control of both ends, `deadline_transport` of type 1's senders where it differs. With
    `thresholds` every host has a tagger, with `fixed` every application writes its flows' codepoints, by number; never both.
    `marking_packets`: None for a switch that does not mark.
    """

    name: str
    transport: str
    marking_packets: int | None = MARKING_PACKETS
    deadline_transport: str | None = None
    thresholds: Thresholds | None = None
    fixed: Fixed | None = None
    tagger: TaggerSettings = TAGGER
    termination: Termination = Termination.NEVER

    def choices(self, flows: Sequence[ScheduledFlow]) -> dict[str, Any]:
        """What applications choose themselves under this scheme: arguments of `flow_run.run`."""
        return {"dscp": None if self.fixed is None else self.fixed(flows), "control": self._control}

    def _control(self, flow: ScheduledFlow) -> str | None:
        return self.deadline_transport if flow.flow_type == 1 else None

    def queues(self) -> SwitchQueues:
        """What the switch's ports are to be. Eight strict priorities always: unmarked traffic shares the last of them."""
        threshold = None if self.marking_packets is None else self.marking_packets * FRAME_BYTES
        return SwitchQueues(buffer_packets=BUFFER_PACKETS, marking_threshold_bytes=threshold)

    def to_dict(self) -> dict[str, Any]:
        """For a result's record."""
        cuts = None if self.thresholds is None else {"beta": self.thresholds.beta, "alpha": self.thresholds.alpha}
        return {
            "name": self.name,
            "congestion_control": self.transport,
            "congestion_control_type_1": self.deadline_transport or self.transport,
            "marking_packets": self.marking_packets,
            "priorities": "tagger" if cuts else "fixed" if self.fixed else "none",
            "thresholds_bytes": cuts,
            "termination": self.termination.value,
        }


def karuna(thresholds: Thresholds, **changes: Any) -> Scheme:  # noqa: ANN401 -- fields of Scheme
    """Type 1 first at MCP's rate, types 2 and 3 sieved into the bands below, DCTCP."""
    return Scheme(**{"name": "karuna", "transport": DCTCP, "deadline_transport": MCP, "thresholds": thresholds, **changes})


def dctcp() -> Scheme:
    """One queue; DCTCP for all."""
    return Scheme("dctcp", DCTCP)


def cubic() -> Scheme:
    """One queue without marking; CUBIC for all."""
    return Scheme("cubic", CUBIC, marking_packets=None)


def sjf(cuts: Sequence[int]) -> Scheme:
    """pFabric with SJF, approximated (emulation.traffic.fixed_priorities); DCTCP is the transport."""
    return Scheme("sjf", DCTCP, fixed=lambda flows: shortest_job(flows, cuts))


def edf(cuts: Sequence[int]) -> Scheme:
    """pFabric with EDF, approximated; DCTCP is the transport."""
    return Scheme("edf", DCTCP, fixed=lambda flows: earliest_deadline(flows, cuts))


Connection = tuple[str, int]
"""A sender's address and port."""


class Laid(NamedTuple):
    """A running fabric, the connections that MCP has given up so far (None if it cannot be known), and the hosts' taggers."""

    emulated: EmulatedFabric
    given_up: Callable[[], frozenset[Connection]] | None
    taggers: Sequence[Tagger]


@contextmanager
def on_star(scheme: Scheme) -> Iterator[Laid]:
    """A running star under the scheme.

    Raises:
        BuildError, BpfError: an eBPF program cannot be built or loaded here; says why.
        EmulationError: the fabric did not come up.
    """
    with ExitStack() as stack:
        given_up = None
        if scheme.transport != CUBIC:
            settings = McpSettings(link_bps=RATE_BPS, marking_packets=MARKING_PACKETS, termination=scheme.termination)
            control = CongestionControl(settings)
            stack.callback(control.close)
            configure(settings)  # also where another process has registered it
            given_up = _watch(control)
        emulated = stack.enter_context(
            EmulatedFabric(
                shapes.build("star", hosts=len(SENDERS) + 1, rate_bps=RATE_BPS),
                queues=scheme.queues(),
                congestion_control=scheme.transport,
                static_arp=True,
            )
        )
        taggers = []
        for host in emulated.fabric.hosts:
            sysctls = {"tcp_ecn": int(scheme.transport != CUBIC), "tcp_rto_min_us": RTO_MIN_NS // 1000}
            # -e: before Linux 6.11 the least timeout is a matter of routes only, and stays what it is
            emulated.run_in(host, "sysctl", "-qew", *(f"net.ipv4.{name}={value}" for name, value in sysctls.items()))
            if scheme.thresholds is not None:
                with network_of(emulated.node(host).pid):
                    tagger = Tagger(emulated.interface(host), scheme.tagger)
                stack.callback(tagger.close)
                taggers.append(tagger)
                tagger.set_thresholds(1, scheme.thresholds.beta, scheme.thresholds.alpha)
        yield Laid(emulated, given_up, taggers)


def _watch(control: CongestionControl) -> Callable[[], frozenset[Connection]] | None:
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
