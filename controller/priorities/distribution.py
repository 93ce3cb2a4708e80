"""Size reports go to the tuner, thresholds from it to every member. Sends only through what it is given.

Thresholds that changed go out in one frame to the group address; HEARTBEAT carries their version from then on, and a member
that missed them asks. This runs in the coordinator's loop, so the tuner does all adding up and solving.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import Part
from controller.members.registry import Member
from controller.processes.jsonlines import JsonLines
from protocol.bodies.flows.priorities import ROWS_MAX
from protocol.bodies.flows.size_bins import BINS, TYPES
from protocol.messages import HEARTBEAT_MAC, Message, SizeReport, Thresholds, ThresholdsRequest

log = logging.getLogger("baton.coordinator")

VERSIONS = 1 << 32
MOST_REPORTS = 2 * -(-TYPES * BINS // ROWS_MAX)
"""Of a member in a period, in frames: twice as many as flows of every type and size take. The tuner keeps all until the period
ends, and a host that sends more is wrong, and must not decide for all."""


class Distribution(Part):
    """The thresholds in force and their version, which is 0 while flows have no priorities."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        send: Callable[[Message, bytes], None],
        write: Callable[[dict[str, Any]], object],
        start_tuner: Callable[[], JsonLines],
    ) -> None:
        """`write` takes lines for the store bridge; `start_tuner` is called by `start`, and again after a tuner's end."""
        self.handlers = {SizeReport: self.on_size_report, ThresholdsRequest: self.on_request}
        self.documents = {"thresholds": self.resume}
        self.periodic = ((settings.size_period_ns, self.start),)
        self.enabled = settings.priorities
        self.thresholds = Thresholds(
            int(self.enabled), settings.size_period_ns, settings.bands, settings.termination, (), ()
        )
        self._send = send
        self._write = write
        self._start_tuner = start_tuner
        self._reports: Counter[int] = Counter()
        """By member: the reports of the period that began at `_period_ns`."""
        self._period_ns = 0
        self.tuner: JsonLines | None = None
        """Its lines while one runs: call `from_tuner` when they are readable."""

    @property
    def version(self) -> int:
        """The version in force, which HEARTBEAT carries."""
        return self.thresholds.version

    def resume(self, document: dict[str, Any], _: int = 0) -> None:
        """Goes on with the thresholds that an earlier coordinator put into the store, if they are for as many bands."""
        found = document.get("thresholds")
        if self.enabled and found is not None and len(found["beta"]) == self.thresholds.bands - 1:
            self.thresholds = self._of(document["version"], found)
            if self.tuner is not None:  # it began before the store's answer came
                self.tuner.write({"in_force": self._in_force()})

    def start(self, _: int = 0) -> None:
        """Starts a tuner, if flows have priorities and none runs."""
        if not self.enabled or self.tuner is not None:
            return
        self.tuner = self._start_tuner()
        bands, period_ns = self.thresholds.bands, self.thresholds.period_ns
        self.tuner.write({"bands": bands, "period_ns": period_ns, "in_force": self._in_force()})

    def _in_force(self) -> dict[str, Any] | None:
        beta, alpha = self.thresholds.beta, self.thresholds.alpha
        return {"beta": beta, "alpha": alpha} if beta else None

    def from_tuner(self) -> bool:
        """Takes what the tuner says; False when it is gone (its thresholds stay, and `start` starts another)."""
        if self.tuner is None:
            return False
        values = self.tuner.read()
        if values is None:
            self.tuner.socket.close()
            self.tuner = None
            return False
        for value in values:
            self._take(value["tuned"])
        return True

    def _take(self, tuned: dict[str, Any]) -> None:
        if tuned["changed"]:
            found = self._of(self.version % (VERSIONS - 1) + 1, tuned["thresholds"])
            self._send(found, HEARTBEAT_MAC)
            self.thresholds = found  # in force as soon as all could hear of them, and not before
            log.info("thresholds version %d", self.version)
            self._write({"event": ["thresholds", "info", f"version {self.version}: {tuned['text']}"]})
        common = {"version": self.version, "bands": self.thresholds.bands, "period_ns": self.thresholds.period_ns}
        self._write({"thresholds": common | tuned})

    def _of(self, version: int, found: dict[str, Any]) -> Thresholds:
        before = self.thresholds
        beta, alpha = tuple(found["beta"]), tuple(found["alpha"])
        return Thresholds(version, before.period_ns, before.bands, before.termination, beta, alpha)

    def status(self) -> dict[str, Any]:
        return {"thresholds_version": self.version}

    # -- what is heard --------------------------------------------------------------------------------------------------

    def on_size_report(self, member: Member, message: SizeReport, now_ns: int) -> None:
        """Passes a member's report on to the tuner, unless it has sent too many."""
        member.thresholds_version = message.version
        if now_ns - self._period_ns >= self.thresholds.period_ns:
            self._reports.clear()
            self._period_ns = now_ns
        self._reports[member.node] += 1
        if self.tuner is not None and self._reports[member.node] <= MOST_REPORTS:
            self.tuner.write({"sizes": (member.rate_bps, message.period_ns, message.rows.hex())})

    def on_busiest(self, load: float) -> None:
        """Passes the load of the busiest link, as a share of its capacity, on to the tuner."""
        if self.tuner is not None:
            self.tuner.write({"busiest": load})

    def on_request(self, member: Member, _: ThresholdsRequest, __: int) -> None:
        """Answers a member that missed a version."""
        if self.enabled:
            self._send(self.thresholds, member.mac)
