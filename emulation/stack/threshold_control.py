"""The controller's thresholds on an emulated fabric without agents: reports of the hosts' taggers in, thresholds out. An edge.

Each host counts the flows that its tagger saw end, as an agent does (agents.priorities.size_counts), and reports them once a
period to the coordinator's own `Distribution`, which starts the tuner, a process. What `Distribution` sends goes into the
taggers. Only the frames between them are left out. The load of the busiest link is what its port has sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agents.priorities.mcp_settings import Termination
from agents.priorities.size_counts import SizeCounts
from agents.priorities.tagger import Tagger
from controller.config.settings import CoordinatorSettings
from controller.members.registry import FIRST_NODE, Figures, Member
from controller.priorities.completion_model import Thresholds
from controller.priorities.distribution import Distribution
from controller.processes.jsonlines import JsonLines
from protocol import messages
from protocol.bodies.flows.priorities import size_reports
from protocol.messages import Message


class Kept(NamedTuple):
    """How thresholds are kept: the number of bands, how often hosts report, and what is in force at first.

    `fixed`: thresholds that stay, in place of the tuner's.
    """

    bands: int
    period_ns: int
    termination: Termination
    fixed: Thresholds | None = None


class _Host(NamedTuple):
    tagger: Tagger
    member: Member
    counts: SizeCounts


class ThresholdControl:
    """Keeps the thresholds of all hosts: call `advance` several times a period."""

    def __init__(
        self,
        taggers: Sequence[Tagger],
        rate_bps: int,
        kept: Kept,
        *,
        start_tuner: Callable[[], JsonLines],
        sent_bytes: Callable[[], int],
        now_ns: int,
    ) -> None:
        """Starts the tuner, unless the thresholds are fixed.

        Args:
            rate_bps: of the hosts' links and of the busiest one.
            sent_bytes: what the busiest link has carried so far.
        """
        settings = CoordinatorSettings(
            interface="", attachment="", key_file=Path(), store="",
            priorities=True, bands=kept.bands, size_period_ns=kept.period_ns, termination=kept.termination.value,
        )  # fmt: skip
        self._hosts = [
            _Host(tagger, Member(FIRST_NODE + at, "", b"", rate_bps, (), "", "", Figures()), SizeCounts())
            for at, tagger in enumerate(taggers)
        ]
        self._rate_bps, self._period_ns = rate_bps, kept.period_ns
        self._sent_bytes = sent_bytes
        self._before = (now_ns, sent_bytes())
        self._due_ns = now_ns + kept.period_ns
        self.told: list[dict[str, Any]] = []
        """What the coordinator would put into the store: the tuner's answer of each period, and the version in force."""
        self._distribution = Distribution(settings, self._send, self._write, start_tuner)
        if kept.fixed is None:
            self._distribution.start()
        else:
            found = {"beta": kept.fixed.beta, "alpha": kept.fixed.alpha}
            self._distribution.resume({"version": 1, "thresholds": found})
            self._send(self._distribution.thresholds, b"")

    @property
    def in_force(self) -> Thresholds | None:
        """The thresholds in force; None before the first."""
        now = self._distribution.thresholds
        return Thresholds(now.beta, now.alpha) if len(now.beta) == now.bands - 1 else None

    def advance(self, now_ns: int) -> None:
        """Counts the flows that ended, reports them when a period is over, and puts new thresholds in force."""
        for host in self._hosts:
            for end in host.tagger.ended():
                host.counts.add(end.flow_type, end.size_bytes)
        if now_ns >= self._due_ns:
            self._report(now_ns)
        self._distribution.from_tuner()

    def _report(self, now_ns: int) -> None:
        (before_ns, before_bytes), sent_bytes = self._before, self._sent_bytes()
        self._before = (now_ns, sent_bytes)
        self._due_ns = now_ns + self._period_ns
        elapsed_ns = now_ns - before_ns
        for host in self._hosts:
            for report in size_reports(host.tagger.version(), elapsed_ns, host.counts.take()):
                self._distribution.on_size_report(host.member, report, now_ns)
        self._distribution.on_busiest((sent_bytes - before_bytes) * 8e9 / (elapsed_ns * self._rate_bps))

    def _send(self, message: Message, _: bytes) -> None:
        if isinstance(message, messages.Thresholds):
            for host in self._hosts:
                host.tagger.set_thresholds(message.version, message.beta, message.alpha)

    def _write(self, value: dict[str, Any]) -> None:
        if "thresholds" in value:
            self.told.append(value["thresholds"])
