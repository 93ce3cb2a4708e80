"""A coordinator's leadership: the election's rules, with the elector that asks the store. An edge: a socket, the clock."""

from __future__ import annotations

import logging
import time
from typing import Self

from controller.config.settings import CoordinatorSettings
from controller.election.rules import Answer, Election
from controller.processes.jsonlines import JsonLines

log = logging.getLogger("baton.coordinator")


class Leadership:
    """Whether we lead, at every instant. `turn` when `due_ns` has come, `read` when `lines` is readable."""

    def __init__(self, election: Election, lines: JsonLines) -> None:
        self.election = election
        self.lines = lines
        self.withheld = 0
        """How many frames were not sent because we did not lead any more."""
        self.contended: list[tuple[str, ...]] = []
        """The links that were contended under the leader before."""
        self.nodes: dict[bytes, int] = {}
        """The ids that hosts had under it, by MAC address."""
        self._without_store = False

    @classmethod
    def begin(cls, settings: CoordinatorSettings, lines: JsonLines) -> Self:
        """As a coordinator's settings say."""
        return cls(
            Election(
                lease_ns=settings.lease_ns,
                heard_ns=settings.fail_open_ns,
                standby=settings.standby,
                now_ns=time.monotonic_ns(),
            ),
            lines,
        )

    def end_term(self, courier: JsonLines) -> None:
        """Tells, when a leader's loop has ended, why we lead no more, if we don't; and begins to count anew."""
        if not self.epoch and self.election.why:
            text = f"stood down: {self.election.why}; {self.withheld} frames were not sent"
            log.warning("%s", text)
            courier.write({"leads": 0})
            courier.write({"event": ["leader", "warning", text]})
        self.withheld = 0

    @property
    def epoch(self) -> int:
        """Ours, or 0."""
        return self.election.epoch

    def may_speak(self) -> bool:
        """To be asked right before a frame is sent: the process may have slept since it was built."""
        if self.election.leads(time.monotonic_ns()):
            return True
        self.withheld += 1
        return False

    def leads(self, now_ns: int) -> bool:
        """Whether we lead."""
        return self.election.leads(now_ns)

    def heard(self, epoch: int, now_ns: int) -> None:
        """An authentic frame of this epoch was heard on the fabric."""
        self.election.heard(epoch, now_ns)

    def serve(self, readable: bool) -> bool:
        """A leader's part in each turn of its loop: what the elector said, what is due. False: it does not lead any more."""
        now = time.monotonic_ns()
        if readable:
            self.read(now)
        self.turn(now)
        return self.leads(now)

    def due_ns(self) -> int:
        """When `turn` is to be called next."""
        return self.election.due_ns()

    def turn(self, now_ns: int) -> None:
        """Lets time pass, and asks what is due to be asked."""
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
        """Takes what the elector says; False when it is gone."""
        values = self.lines.read()
        if values is None:
            log.error("the elector is gone: stopping, to be started again")
            self.election.resign("the elector is gone", now_ns)
            return False
        for value in values:
            if "legacy" in value:
                self.contended = [tuple(link) for link in value["legacy"].get("contended", ())]
                nodes = value["legacy"].get("nodes", {})
                self.nodes = {bytes.fromhex(mac.replace(":", "")): node for mac, node in nodes.items()}
            if "answer" in value:
                self.election.answered(Answer(*value["answer"]), value["term"], now_ns)
            else:
                self.election.away(value["term"], now_ns)
        if self.election.from_memory != self._without_store and self.election.epoch:
            self._without_store = self.election.from_memory
            log.warning("the store is away: leading on from memory" if self._without_store else "the store is back")
        return True
