"""A coordinator's leadership: the election's rules, and the elector that asks the store. An edge: a socket, the clock."""

from __future__ import annotations

import logging
import time
from typing import Self

from controller.config.settings import CoordinatorSettings
from controller.election.rules import Answer, Election
from controller.processes.jsonlines import JsonLines
from protocol.auth import LAST_EPOCH, believable
from protocol.units import MILLISECOND_NS

log = logging.getLogger("baton.coordinator")


class Leadership:
    """Whether we lead, at every instant. The caller calls `turn` when `due_ns` has come, `read` when `lines` is readable."""

    def __init__(self, election: Election, lines: JsonLines) -> None:
        self.election = election
        self.lines = lines
        self.withheld = 0
        """How many frames we did not send because we no longer led."""
        self.unbelieved = 0
        """How many leaders' frames had an epoch that no leader can have."""
        self.contended: list[tuple[str, ...]] = []
        """The links that were contended under the last leader."""
        self.nodes: dict[bytes, int] = {}
        """The node ids that hosts had under the last leader, by MAC address."""
        self.refused = ""
        """Why the store gave us no lease when it last did not; empty when it did."""
        self._without_store = False
        self._silent_ns: int | None = None
        """Since when our lease has run out."""
        self._withheld_before = 0
        """How many frames had been withheld then."""

    @classmethod
    def begin(cls, settings: CoordinatorSettings, lines: JsonLines) -> Self:
        """Makes one from a coordinator's settings."""
        return cls(
            Election(
                lease_ns=settings.lease_ns,
                heard_ns=settings.fail_open_ns,
                standby=settings.standby,
                now_ns=time.monotonic_ns(),
            ),
            lines,
        )

    def end_term(self, bridge: JsonLines) -> None:
        """Reports, when a leader's loop has ended, why we no longer lead (if we don't); then sets the count to 0."""
        if not self.epoch and self.election.why:
            text = f"stood down: {self.election.why}; {self.withheld} frames were not sent"
            log.warning("%s", text)
            bridge.write({"leads": 0})
            bridge.write({"event": ["leader", "warning", text]})
        self.withheld, self._silent_ns = 0, None

    @property
    def epoch(self) -> int:
        """Our epoch while we lead, or our lease has run out and may come back; else 0."""
        return self.election.epoch

    def may_speak(self) -> bool:
        """Whether we may send a frame. Call it right before sending: the process may have slept since it built the frame."""
        if self.election.leads(time.monotonic_ns()):
            return True
        self.withheld += 1
        return False

    def until_ns(self) -> int:
        """Until when we may send frames: for who sends many, and looks at the clock itself before each."""
        return self.election.until_ns()

    def leads(self, now_ns: int) -> bool:
        """Whether we lead at this instant."""
        return self.election.leads(now_ns)

    def heard(self, epoch: int, now_ns: int) -> None:
        """A leader's authentic frame of this epoch has arrived from the fabric."""
        if believable(epoch, max(self.election.highest_epoch, int(time.time()))):
            self.election.heard(epoch, now_ns)
        else:
            self.unbelieved += 1

    def twin(self, other: bytes, own: bytes, now_ns: int) -> None:
        """Another leader of our epoch was heard, at the MAC address `other`. The higher one goes on."""
        if other > own:
            self.election.twin(now_ns)

    def serve(self, readable: bool) -> bool:
        """Serves the election in a turn of a leader's loop: takes answers, asks what is due. False: we lead no more."""
        now = time.monotonic_ns()
        if readable:
            self.read(now)
        self.turn(now)
        if self.epoch and self._silent_ns is None and not self.leads(now):
            self._silent_ns, self._withheld_before = now, self.withheld
        return bool(self.epoch)

    def resumed(self) -> str:
        """What to tell operators if our lease had run out and has come back since the last call; else empty."""
        now = time.monotonic_ns()
        if self._silent_ns is None or not self.leads(now):
            return ""
        silent_ms, frames = (now - self._silent_ns) // MILLISECOND_NS, self.withheld - self._withheld_before
        self._silent_ns = None
        return f"its lease ran out, and nobody led meanwhile: leading on after {silent_ms} ms; {frames} frames were not sent"

    def due_ns(self) -> int:
        """When `turn` is to be called next."""
        return self.election.due_ns()

    def turn(self, now_ns: int) -> None:
        """Applies the passing of time, and asks the elector if a question is due."""
        election = self.election
        if now_ns < election.due_ns():
            return
        election.tick(now_ns)
        ask = election.ask(now_ns)
        if ask is not None:
            self.lines.write(
                {"ask": ask.value, "term": election.term, "epoch": election.epoch, "highest": election.highest_epoch}
            )

    def read(self, now_ns: int) -> bool:
        """Takes the elector's answers; False when the elector has ended."""
        values = self.lines.read()
        if values is None:
            log.error("the elector has ended: stopping, so that the supervisor starts both again")
            self.election.resign("the elector has ended", now_ns)
            return False
        for value in values:
            if "legacy" in value:
                self.contended = [tuple(link) for link in value["legacy"].get("contended", ())]
                nodes = value["legacy"].get("nodes", {})
                self.nodes = {bytes.fromhex(mac.replace(":", "")): node for mac, node in nodes.items()}
            if "answer" in value and (answer := Answer(*value["answer"])).epoch <= LAST_EPOCH:
                self.election.answered(answer, value["term"], now_ns)
                self.refused = ""
            else:
                self.refused = str(value.get("refused", self.refused))
                self.election.away(value["term"], now_ns)
        if self.election.from_memory != self._without_store and self.election.epoch:
            self._without_store = self.election.from_memory
            log.warning("the store is away: leading on from memory" if self._without_store else "the store is back")
        return True
