"""Size reports to the tuner, thresholds from it to every member. Sends only through what it is given.

Thresholds that changed go out in one frame to the group address; HEARTBEAT tells their version from then on, and a member that
missed them asks. Nothing is added up or solved here: this runs in the coordinator's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.registry import Member
from controller.processes.jsonlines import JsonLines
from controller.scheduling.congestion import Congestion
from protocol.messages import HEARTBEAT_MAC, Message, SizeReport, Thresholds, ThresholdsRequest

log = logging.getLogger("baton.coordinator")

VERSIONS = 1 << 32


class Distribution:
    """The thresholds in force and their version, which is 0 while flows have no priorities."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        send: Callable[[Message, bytes], None],
        tell: Callable[[dict[str, Any]], object],
        start_tuner: Callable[[], JsonLines],
    ) -> None:
        """`tell` takes lines for the courier; `start_tuner` is called once here, and again after a tuner's end."""
        self.enabled = settings.priorities
        self.thresholds = Thresholds(
            int(self.enabled), settings.size_period_ns, settings.bands, settings.termination, (), ()
        )
        self._send = send
        self._tell = tell
        self._start_tuner = start_tuner
        self.tuner: JsonLines | None = None
        """Its lines, to wait for, while one runs."""

    @property
    def version(self) -> int:
        """What HEARTBEAT tells."""
        return self.thresholds.version

    def resume(self, document: dict[str, Any]) -> None:
        """Goes on with the thresholds that an earlier coordinator put into the store, if they are for as many bands."""
        found = document.get("thresholds")
        if self.enabled and found is not None and len(found["beta"]) == self.thresholds.bands - 1:
            self._put_in_force(document["version"], found)

    def start(self, _: int = 0) -> None:
        """Starts a tuner, if flows have priorities and none runs."""
        if not self.enabled or self.tuner is not None:
            return
        beta, alpha = self.thresholds.beta, self.thresholds.alpha
        self.tuner = self._start_tuner()
        self.tuner.write(
            {
                "bands": self.thresholds.bands,
                "period_ns": self.thresholds.period_ns,
                "in_force": {"beta": beta, "alpha": alpha} if beta else None,
            }
        )

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
            self._put_in_force(self.version % (VERSIONS - 1) + 1, tuned["thresholds"])
            self._send(self.thresholds, HEARTBEAT_MAC)
            log.info("thresholds version %d", self.version)
            self._tell({"event": ["thresholds", "info", f"version {self.version}: {tuned['text']}"]})
        common = {"version": self.version, "bands": self.thresholds.bands, "period_ns": self.thresholds.period_ns}
        self._tell({"thresholds": common | tuned})

    def _put_in_force(self, version: int, found: dict[str, Any]) -> None:
        before = self.thresholds
        self.thresholds = Thresholds(
            version, before.period_ns, before.bands, before.termination, tuple(found["beta"]), tuple(found["alpha"])
        )

    # -- what is heard --------------------------------------------------------------------------------------------------

    def on_size_report(self, member: Member, message: SizeReport, _: int) -> None:
        """Passes a report on."""
        member.thresholds_version = message.version
        if self.tuner is not None:
            self.tuner.write({"sizes": (member.rate_bps, message.period_ns, message.rows.hex())})

    def on_busiest(self, congestion: Congestion) -> None:
        """Passes on the load of the busiest link, when the ports were read."""
        if self.tuner is not None:
            self.tuner.write({"busiest": congestion.busiest()})

    def on_request(self, member: Member, _: ThresholdsRequest, __: int) -> None:
        """Answers a member that missed a version."""
        if self.enabled:
            self._send(self.thresholds, member.mac)
