"""Priorities of flows at one host: its tagger, its congestion control, and the messages about them. An edge.

A part of the agent. Nothing here is urgent: the agent calls it after all gates are set. It reads the ends of flows from the
kernel's ring twenty times a second and not at each end: thousands of flows may end in a second, and the reports can wait.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from agents.loop.part import Part, Surroundings
from agents.priorities.coflow_counts import CoflowCounts
from agents.priorities.congestion_control import Chooser, CongestionControl
from agents.priorities.marked_run import NoCgroup
from agents.priorities.mcp_settings import MOST_LINK_BPS, McpSettings, Termination
from agents.priorities.size_counts import SizeCounts
from agents.priorities.tagger import SHORT_BYTES, Tagger, TaggerSettings
from agents.queues.classifier import Address
from agents.queues.directory import DirectoryCopy
from ebpf.build import BuildError
from ebpf.libbpf import BpfError
from protocol.bodies.flows.coflow_report import CoflowReport, coflow_reports
from protocol.bodies.flows.priorities import size_reports
from protocol.bodies.groups import GroupsChange
from protocol.messages import (
    UNREGISTERED,
    Coflows,
    Directory,
    DirectoryChange,
    Heartbeat,
    Paths,
    Regulate,
    SizeReport,
    Thresholds,
    ThresholdsRequest,
)
from protocol.paging import Reassembler
from protocol.units import FRAME_BYTES

log = logging.getLogger("baton.priorities")

ASK_AGAIN_NS, MOST_ASK_NS = 100_000_000, 5_000_000_000
"""How long to wait for thresholds before asking again; doubled each time, up to the longest."""
COLLECT_NS = 50_000_000
COFLOW_NS = 20_000_000
"""How often the bytes of coflows are reported while there are any."""
MOST_POSTPONED = 10
"""A sweep over the table takes 2.5 ms (17 ms with 100,000 flows): it waits for a moment without slots, but only this often."""
UNKNOWN = -1
MARKING_PACKETS = 20
"""K until the leader has told it."""
CROWD_PART = 2
"""Flows with deadlines yield when the first queue is longer than K / 2: paced and not too many, they hardly make one. Less
would take the delay of a busy host for a queue."""
LEAST_LINK_BPS, MOST_MARKING = 100_000, 10_000


def mcp_settings(link_bps: int, marking_packets: int, termination: Termination = Termination.NEVER) -> McpSettings:
    """MCP's settings for a path with such a C and K, within its limits, where the tagger gives it a queue of its own."""
    link_bps = min(max(link_bps, LEAST_LINK_BPS), MOST_LINK_BPS)
    marking = min(max(marking_packets, 1), MOST_MARKING)
    crowd = max(1, marking // CROWD_PART)
    return McpSettings(link_bps=link_bps, marking_packets=marking, termination=termination, crowd_packets=crowd)


class Priorities(Part):
    """The agent's part for priorities. Create it before the agent's loop starts; `close` removes everything."""

    def __init__(self, agent: Surroundings, interface: str, rate_bps: int, cgroup: Path | None = None) -> None:
        """Attaches the tagger to the interface's egress, and the choice of congestion control to a cgroup (None: the root's).

        If the kernel cannot have the latter, it logs a warning and only tags.

        Raises:
            BuildError, BpfError: the tagger cannot be built or loaded, with the reason. Nothing has changed then.
        """
        self._agent = agent
        self._rate_bps = rate_bps
        self._mcp = mcp_settings(rate_bps, MARKING_PACKETS)
        self._tagger = Tagger(interface)
        self._control: CongestionControl | None = None
        self._chooser: Chooser | None = None
        try:
            self._control = CongestionControl(self._mcp, cgroup)
            self._chooser = Chooser(cgroup, control=self._control)
            log.info("flows with deadlines: MCP by %s; others: %s", self._control.way.value, self._control.dctcp)
        except (BuildError, BpfError, NoCgroup) as error:
            log.warning("flows keep their congestion control: %s", error)
        self._shared = True
        """Whether short flows share the queue of those with deadlines."""
        self._enforcing = False
        """Whether gates could be shut at the last look at who waits for permission."""
        self._counts = SizeCounts()
        self._version = UNKNOWN
        self._period_ns = 0
        self._due_ns = 0
        self._asked_ns, self._ask_after_ns, self._wanted = 0, ASK_AGAIN_NS, UNKNOWN
        self._postponed = 0
        self._collect_ns = 0
        self._coflows: Reassembler[Coflows] = Reassembler()
        self._ordered = False
        """Whether the leader's order names any coflow."""
        self._coflow_counts: CoflowCounts[Address] = CoflowCounts()
        self._coflow_ns = 0
        self._nodes: dict[Address, int] = {}
        self._directory = DirectoryCopy()
        self._path_pages: Reassembler[Paths] = Reassembler()
        self._paths: dict[int, McpSettings] = {}
        self._coflows_version = self._paths_version = UNKNOWN
        self.handlers = {
            Heartbeat: self._on_heartbeat,
            Thresholds: self.on_thresholds,
            Coflows: self.on_coflows,
            Directory: self._on_directory,
            DirectoryChange: self._on_directory_change,
            Regulate: self._on_regulated,
            GroupsChange: self._on_regulated,
            Paths: self._on_paths,
        }

    @property
    def tagger(self) -> Tagger:
        """The tagger, whose table of guests' marks another part fills."""
        return self._tagger

    # -- messages of the coordinator -----------------------------------------------------------------------------------

    def new_leader(self, now_ns: int) -> None:
        """Forgets the previous leader's versions, and the paths, which go by its numbers of nodes. Thresholds and coflows stay
        in force until the new leader replaces them."""
        self._version = self._wanted = self._coflows_version = self._paths_version = UNKNOWN
        self._directory.new_leader()
        self._coflow_counts.again()
        for pages in (self._coflows, self._path_pages):
            pages.clear()
        self._paths = {}
        self._configure(mcp_settings(self._rate_bps, MARKING_PACKETS, self._mcp.termination))
        self._update_paths()

    def released(self, now_ns: int) -> None:
        """Notes that no gate waits for permission now."""
        self._update_gated()

    def _on_directory(self, message: Directory, now_ns: int) -> None:
        if self._directory.take(message):
            self._update_directory()

    def _update_directory(self) -> None:
        self._nodes = {address: node for node, addresses in self._directory.entries.items() for address in addresses}
        self._update_gated()
        self._update_paths()

    def _on_directory_change(self, message: DirectoryChange, now_ns: int) -> None:
        if self._directory.change(message):
            self._update_directory()

    def _on_regulated(self, _: Regulate | GroupsChange, now_ns: int) -> None:
        """Who is regulated has changed; the agent knows it by now."""
        self._update_gated()

    def _update_gated(self) -> None:
        """Tells which destinations wait for permission. While any does, short flows do not share the top queue: behind a gate,
        its bytes count as those of flows with deadlines, which are granted first."""
        self._enforcing = self._agent.enforcing
        entries = self._directory.entries
        gated = [address for node in filter(self._agent.needs_permission, entries) for address in entries[node]]
        if self._chooser is not None:
            self._chooser.gate(gated)
        if self._shared == bool(gated):
            self._shared = not gated
            self._tagger.set_settings(TaggerSettings(short_bytes=SHORT_BYTES if self._shared else 0))

    def _on_paths(self, message: Paths, now_ns: int) -> None:
        if (pages := self._path_pages.add(message)) is None or message.version < self._paths_version:
            return  # an older one came late
        self._paths_version = message.version
        termination = self._mcp.termination
        usual = mcp_settings(message.rate_bps, message.marking_bytes // FRAME_BYTES, termination)
        self._paths = {
            node: mcp_settings(rate_bps, marking_bytes // FRAME_BYTES, termination)
            for page in pages
            for node, rate_bps, marking_bytes in page.entries
        }
        if usual != self._mcp:
            log.info("MCP: paths of %d Mb/s, marking from %d packets", usual.link_bps // 10**6, usual.marking_packets)
        self._configure(usual)
        self._update_paths()

    def _configure(self, settings: McpSettings) -> None:
        self._mcp = settings
        if self._control is not None:
            self._control.configure(settings)

    def _update_paths(self) -> None:
        if self._control is None:
            return
        paths = {address: path for node, path in self._paths.items() for address in self._directory.entries.get(node, ())}
        if left_out := self._control.set_paths(paths):
            log.warning("MCP takes the usual path for %d addresses: there are too many others", left_out)

    def _on_heartbeat(self, message: Heartbeat, now_ns: int) -> None:
        if self._agent.enforcing != self._enforcing:  # the leader is heard again, or the operator's override is off
            self._update_gated()
        if self._agent.member and (question := self.on_version(message.thresholds_version, now_ns)):
            self._agent.send(question)

    def on_version(self, version: int, now_ns: int) -> ThresholdsRequest | None:
        """Compares the version in a HEARTBEAT with the one in force; returns the request for newer thresholds if they differ.

        Version 0 means that the coordinator wants no reports.
        """
        if version == 0:
            self._period_ns = 0
        if version in (0, self._version):
            return None
        again = version == self._wanted
        if now_ns - self._asked_ns < (self._ask_after_ns if again else ASK_AGAIN_NS):
            return None
        self._ask_after_ns = min(2 * self._ask_after_ns, MOST_ASK_NS) if again else ASK_AGAIN_NS
        self._wanted, self._asked_ns = version, now_ns
        return ThresholdsRequest(max(0, self._version))

    def on_thresholds(self, message: Thresholds, now_ns: int) -> None:
        """Puts thresholds in force between two packets."""
        self._tagger.set_thresholds(message.version, message.beta, message.alpha)
        if self._version != message.version:
            log.info("thresholds version %d", message.version)
        self._version = message.version
        if self._period_ns != message.period_ns:
            self._period_ns = message.period_ns
            self._due_ns = now_ns + message.period_ns
        self._configure(replace(self._mcp, termination=Termination(message.termination)))

    def on_coflows(self, message: Coflows, now_ns: int) -> None:
        """Takes a page of the order of coflows; sets their queues once all pages are here."""
        pages = self._coflows.add(message)
        if pages is not None and message.version >= self._coflows_version:  # else an older one came late
            self._coflows_version = message.version
            queues = {coflow: queue for page in pages for coflow, queue in page.entries}
            self._tagger.set_coflows(queues)
            self._ordered = bool(queues)

    # -- reports --------------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int:
        """When to read the ends of flows, or the bytes of coflows, next."""
        return min(self._collect_ns, self._coflow_ns)

    def advance(self, now_ns: int) -> None:
        """Reads the ends of flows at intervals, and sends reports once a period."""
        if now_ns >= self._coflow_ns:
            self._coflow_ns = now_ns + COLLECT_NS
            for sent in self.coflow_reports(now_ns) if self._agent.member else ():
                self._agent.send(sent)
        if now_ns < self._collect_ns:
            return
        self._collect_ns = now_ns + COLLECT_NS
        if self._agent.member:
            for report in self.reports(now_ns, idle=self._agent.idle):
                self._agent.send(report)

    def coflow_reports(self, now_ns: int) -> list[CoflowReport]:
        """What this host has sent for coflows, where it has changed; nothing before the leader has numbered the nodes."""
        if self._directory.version < 0:
            return []
        counted, nodes = self._tagger.coflow_bytes(), self._nodes
        found = coflow_reports(self._coflow_counts.take(counted, lambda target: nodes.get(target, UNREGISTERED), now_ns))
        for coflow, target in self._coflow_counts.silent(now_ns):
            self._tagger.forget_coflow_bytes(coflow, target)
        if self._ordered or self._coflow_counts.busy:
            self._coflow_ns = now_ns + COFLOW_NS
        return found

    def reports(self, now_ns: int, *, idle: bool) -> list[SizeReport]:
        """Counts the flows that ended; returns the reports to send once a period, else none. `idle`: no slot is open or due."""
        for end in self._tagger.ended():
            self._counts.add(end.flow_type, end.size_bytes)
        if not self._period_ns or now_ns < self._due_ns:
            return []
        self._postponed += 1
        if idle or self._postponed > MOST_POSTPONED:
            self._postponed = 0
            self._tagger.sweep()  # the next report counts their ends
        elapsed_ns = now_ns - self._due_ns + self._period_ns
        self._due_ns = now_ns + self._period_ns
        return size_reports(self._tagger.version(), elapsed_ns, self._counts.take())

    # -- keeping --------------------------------------------------------------------------------------------------------

    def repair(self) -> list[str]:
        """Attaches the tagger again if its filter was removed; returns lines to log."""
        return ["the tagger's filter was missing"] if self._tagger.repair() else []

    def warnings(self) -> list[str]:
        """What other agents took with them, which this one has no right to load by now."""
        gone = self._control.gone() if self._control is not None else []
        names = " and ".join(gone)
        return [f"flows get no {names}: the agent that had registered it here has ended; restart this agent"] if gone else []

    def close(self) -> None:
        """Removes everything; connections keep their congestion control."""
        for part in (self._chooser, self._control, self._tagger):
            if part is not None:
                part.close()
