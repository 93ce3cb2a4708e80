"""Priorities of flows at one host: its tagger, its congestion control, what the coordinator is told and says of them. An edge.

A part of the agent. Nothing here is urgent: it is called after every gate is as it should be. What ended is taken
from the kernel's ring twenty times a second, not when it happens: thousands of flows may end in a second, and nobody waits to
hear of it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from agents.loop.part import Part, Surroundings
from agents.priorities.congestion_control import Chooser, CongestionControl
from agents.priorities.marked_run import NoCgroup
from agents.priorities.mcp_model import McpSettings, Termination
from agents.priorities.size_counts import SizeCounts
from agents.priorities.tagger import Tagger
from agents.queues.classifier import Address
from ebpf.build import BuildError
from ebpf.libbpf import BpfError
from protocol.bodies.priorities import size_reports
from protocol.messages import Coflows, Directory, Heartbeat, Regulate, SizeReport, Thresholds, ThresholdsRequest
from protocol.paging import Reassembler

log = logging.getLogger("baton.priorities")

ASK_AGAIN_NS = 100_000_000
LOOK_NS = 50_000_000
MOST_POSTPONED = 10
"""A sweep over the table takes 2.5 ms, and 17 ms with 100,000 flows: it waits for a moment without slots, but only so often."""
UNKNOWN = -1


class Priorities(Part):
    """Made before anything is urgent; `close` takes everything away."""

    def __init__(self, agent: Surroundings, interface: str, rate_bps: int, cgroup: Path | None = None) -> None:
        """Puts the tagger at the interface's egress, and the choice of a congestion control at a cgroup (None: all processes).

        A kernel without the latter is told of in the log, and tags all the same.

        Raises:
            BuildError, BpfError: there is no tagger here; says why. Nothing is changed then.
        """
        self._agent = agent
        self._rate_bps = rate_bps
        self._tagger = Tagger(interface)
        self._control: CongestionControl | None = None
        self._chooser: Chooser | None = None
        try:
            self._control = CongestionControl(McpSettings(link_bps=rate_bps))
            self._chooser = Chooser(cgroup)
        except (BuildError, BpfError, NoCgroup) as error:
            log.warning("flows keep the congestion control that they have: %s", error)
        self._counts = SizeCounts()
        self._version = UNKNOWN
        self._period_ns = 0
        self._due_ns = 0
        self._asked_ns = 0
        self._postponed = 0
        self._look_ns = 0
        self._coflows: Reassembler[Coflows] = Reassembler()
        self._directory: Reassembler[Directory] = Reassembler()
        self._regulate: Reassembler[Regulate] = Reassembler()
        self._addresses: dict[int, tuple[Address, ...]] = {}
        self._gated: frozenset[int] = frozenset()
        self.handlers = {
            Heartbeat: self._on_heartbeat,
            Thresholds: self.take,
            Coflows: self.take_coflows,
            Directory: self._on_directory,
            Regulate: self._on_regulate,
        }

    # -- what the coordinator says --------------------------------------------------------------------------------------

    def new_leader(self, now_ns: int) -> None:
        """Its versions are its own; what is in force stays until it says otherwise."""
        self._version = UNKNOWN
        for pages in (self._coflows, self._directory, self._regulate):
            pages.clear()

    def released(self, now_ns: int) -> None:
        """No gate waits for permission now."""
        self._gated = frozenset()
        self._tell_chooser()

    def _on_directory(self, message: Directory, now_ns: int) -> None:
        if (pages := self._directory.add(message)) is not None:
            self._addresses = {node: tuple(addresses) for page in pages for node, addresses in page.entries}
            self._tell_chooser()

    def _on_regulate(self, message: Regulate, now_ns: int) -> None:
        if (pages := self._regulate.add(message)) is not None and self._agent.obeying:
            self._gated = frozenset(node for page in pages for node in page.destinations)
            self._tell_chooser()

    def _tell_chooser(self) -> None:
        if self._chooser is not None:
            self._chooser.gate([address for node in self._gated for address in self._addresses.get(node, ())])

    def _on_heartbeat(self, message: Heartbeat, now_ns: int) -> None:
        if self._agent.member and (question := self.heard(message.thresholds_version, now_ns)):
            self._agent.send(question)

    def heard(self, version: int, now_ns: int) -> ThresholdsRequest | None:
        """A HEARTBEAT told this version; what to ask, if it is not ours. 0: nobody wants reports."""
        if version == 0:
            self._period_ns = 0
        if version in (0, self._version) or now_ns - self._asked_ns < ASK_AGAIN_NS:
            return None
        self._asked_ns = now_ns
        return ThresholdsRequest(max(0, self._version))

    def take(self, message: Thresholds, now_ns: int) -> None:
        """Puts thresholds in force, between two packets."""
        self._tagger.set_thresholds(message.version, message.beta, message.alpha)
        if self._version != message.version:
            log.info("thresholds version %d", message.version)
        self._version = message.version
        if self._period_ns != message.period_ns:
            self._period_ns = message.period_ns
            self._due_ns = now_ns + message.period_ns
        if self._control is not None:
            self._control.configure(McpSettings(link_bps=self._rate_bps, termination=Termination(message.termination)))

    def take_coflows(self, message: Coflows, now_ns: int) -> None:
        """Takes a page of the coflows' order."""
        pages = self._coflows.add(message)
        if pages is not None:
            self._tagger.set_coflows({coflow: queue for page in pages for coflow, queue in page.entries})

    # -- what it is told ------------------------------------------------------------------------------------------------

    def next_due_ns(self) -> int:
        """When to look for flows that ended."""
        return self._look_ns

    def advance(self, now_ns: int) -> None:
        """Looks, if it is time, and sends what is to be reported."""
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + LOOK_NS
        if self._agent.member:
            for report in self.reports(now_ns, idle=self._agent.idle):
                self._agent.send(report)

    def reports(self, now_ns: int, *, idle: bool) -> list[SizeReport]:
        """Takes the flows that ended; once a period what to send of them, else nothing. `idle`: there are no slots just now."""
        for end in self._tagger.ended():
            self._counts.add(end.flow_type, end.size_bytes)
        if not self._period_ns or now_ns < self._due_ns:
            return []
        self._postponed += 1
        if idle or self._postponed > MOST_POSTPONED:
            self._postponed = 0
            self._tagger.sweep()  # their ends come with the next report
        elapsed_ns = now_ns - self._due_ns + self._period_ns
        self._due_ns = now_ns + self._period_ns
        return size_reports(self._tagger.version(), elapsed_ns, self._counts.take())

    # -- keeping --------------------------------------------------------------------------------------------------------

    def repair(self) -> list[str]:
        """Puts the tagger back if somebody took it away; lines to log."""
        return ["the tagger's filter was missing"] if self._tagger.repair() else []

    def close(self) -> None:
        """Takes everything away; connections keep the congestion control that they have."""
        for part in (self._chooser, self._control, self._tagger):
            if part is not None:
                part.close()
