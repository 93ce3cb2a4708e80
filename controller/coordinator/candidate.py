"""A coordinator that does not lead (yet): it has everything loaded, and waits for its lease. An edge: one loop.

It listens on the fabric, where a leader's heartbeats say that it lives, and keeps what the store bridge tells, so that it can
lead at once.
"""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Callable
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.coordinator.gathering import Gathered
from controller.election.leadership import Leadership
from controller.processes.jsonlines import JsonLines
from controller.processes.logs import Seldom
from controller.store.layout import READS
from protocol.auth import Guard, authentications
from protocol.bodies.keys import KeyStep
from protocol.bodies.versions import NEWEST, SPOKEN, Unspoken
from protocol.key import Key
from protocol.key_files import KeyFiles
from protocol.keyring import KeyRing, SharedAuthentication
from protocol.link import ControlSocket

log = logging.getLogger("baton.coordinator")

ANNOUNCE_NS = 1_000_000_000
MOST_FRAMES = 64
"""How many frames one turn of the loop takes."""


class CachedLines(JsonLines):
    """The lines of the store bridge, and the last of each kind, for a coordinator that begins later."""

    def __init__(self, lines: JsonLines) -> None:
        super().__init__(lines.socket)
        self._latest: dict[str, dict[str, Any]] = {}
        self._gathered = Gathered()

    def read(self) -> list[dict[str, Any]] | None:
        values = super().read()
        for value in values or ():
            if "parts" in value:
                self._gathered.take(value["parts"])
            else:
                self._latest[next(iter(value))] = value
        return values

    def latest(self) -> list[dict[str, Any]]:
        """The last line of each kind, and all of what was told in parts."""
        return [*self._gathered.whole(), *self._latest.values()]


def announcement(settings: CoordinatorSettings, link: ControlSocket, epoch: int) -> dict[str, Any]:
    """The line by which the store knows of this controller; `epoch` is 0 while it does not lead."""
    fields = {"attachment": settings.attachment, "mac": link.address.hex(":"), "pid": os.getpid()}
    fields |= {"wire": list(SPOKEN), "schemas": list(READS)}
    return {"controller": [settings.name, {**fields, "leads": bool(epoch), "epoch": epoch}]}


class Candidate:
    """Stands by until it leads."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        key: Key | KeyRing[Any],
        link: ControlSocket,
        bridge: CachedLines,
        leadership: Leadership,
        shared: Key | None = None,
        beat: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`key`: the master key, or two of them while it is changed; `shared`: what hosts and controllers of version 2 have;
        `beat` is called in each turn of `stand_by`, with the time (ns)."""
        self.settings = settings
        self.link = link
        self.bridge = bridge
        self.leadership = leadership
        ring: KeyRing[Any] = key if isinstance(key, KeyRing) else KeyRing(key)
        ways = dict(authentications(ring))
        if shared is not None:
            ways[NEWEST - 1] = SharedAuthentication(KeyRing(shared))
        self.guard = Guard(ring, address=link.address, known=int(time.time()), ways=ways)
        self._keys = KeyFiles(settings.key_file, ring)
        self._unspoken = Unspoken("this controller", "the agent or controller")
        self._refusals = Seldom()
        self._beat = beat
        self._stopping = False

    def stop(self, *_: object) -> None:
        """Ends `stand_by` soon; a signal handler."""
        self._stopping = True

    def stand_by(self) -> bool:
        """Returns True once we lead, False when `stop` was called, or store bridge, elector or interface are lost."""
        announced_ns = 0
        while not self._stopping:
            now = time.monotonic_ns()
            self._beat(now)
            self.leadership.turn(now)
            if now - announced_ns >= ANNOUNCE_NS:
                announced_ns = now
                if fault := self.link.fault():
                    log.error("interface %s %s: stopping, to be started again", self.settings.interface, fault)
                    return False
                self._tell(self._keys.refresh())
                self.bridge.write(announcement(self.settings, self.link, 0))
            due_ns = min(self.leadership.due_ns(), announced_ns + ANNOUNCE_NS)
            sources: list[ControlSocket | JsonLines] = [self.link, self.bridge, self.leadership.lines]
            readable, _, _ = select.select(sources, (), (), max(0, due_ns - now) / 1e9)
            now = time.monotonic_ns()
            if self.link in readable:
                self._listen(now)
            if self.bridge in readable and self.bridge.read() is None:
                log.error("the store bridge is gone: stopping, to be started again")
                return False
            if self.leadership.lines in readable and not self.leadership.read(now):
                return False
            refused = self.leadership.refused
            if refused and self._refusals.is_news(refused, now):  # between two attempts it is empty
                self.bridge.write({"event": ["leader", "warning", f"takes no office: {refused}"]})
            if self.leadership.leads(now):
                return True
        return False

    def _listen(self, now_ns: int) -> None:
        for _ in range(MOST_FRAMES):
            if (raw := self.link.receive()) is None:
                return
            frame = self.guard.accept(raw)
            if self.guard.foreign is not None:
                self._tell([line] if (line := self._unspoken.heard(*self.guard.foreign, now_ns)) else [])
                self.guard.foreign = None
            if frame is not None:
                self.leadership.heard(frame.epoch, now_ns)
                if isinstance(frame.message, KeyStep):
                    self._tell(self._keys.apply(frame.message))

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            log.info("%s", line)
