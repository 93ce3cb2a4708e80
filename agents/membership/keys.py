"""A host's part in a change of the fabric's key: takes the new one when its file is there, lets the old one go when told so.

With which key to send the ring finds out by itself (protocol/keyring.py). An edge: the files, looked at once a second.
"""

from __future__ import annotations

import logging
from pathlib import Path

from agents.loop.part import Part, Surroundings
from protocol.bodies.keys import KeyState, KeyStep
from protocol.key_files import KeyFiles
from protocol.keyring import KeyRing

log = logging.getLogger("baton.agent")

LOOK_NS = 1_000_000_000


class Keys(Part):
    """Keeps the agent's ring as the key's files and the leader say."""

    def __init__(self, agent: Surroundings, ring: KeyRing, path: Path) -> None:
        self.handlers = {KeyStep: self._on_step}
        self._agent = agent
        self._ring = ring
        self._files = KeyFiles(path, ring)
        self._due_ns = 0

    def look(self, *_: object) -> None:
        """Has the files looked at in the next moment that concerns a part; a signal handler."""
        self._due_ns = 0

    def next_due_ns(self) -> int | None:
        """See Part."""
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """See Part."""
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + LOOK_NS
            self._tell(self._files.refresh())

    def _on_step(self, message: KeyStep, _: int) -> None:
        self._tell(self._files.obey(message))
        if self._agent.member:
            self._agent.send(KeyState(*self._ring.fingerprints()))

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            log.info("%s", line)
