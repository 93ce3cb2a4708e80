"""A host's part in a change of the fabric's key: loads the new key from its file, drops the old one when the leader says.

The ring itself chooses the key to send with (protocol/keyring.py). An edge: reads the files once a second.
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
    """Keeps the agent's ring in step with the key files and the leader's KEY_STEP messages."""

    def __init__(self, agent: Surroundings, ring: KeyRing, path: Path) -> None:
        self.handlers = {KeyStep: self._on_step}
        self._agent = agent
        self._ring = ring
        self._files = KeyFiles(path, ring)
        self._due_ns = 0

    def look(self, *_: object) -> None:
        """Reads the files at the next call of any part; a signal handler."""
        self._due_ns = 0

    def next_due_ns(self) -> int | None:
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + LOOK_NS
            self._log(self._files.refresh())

    def _on_step(self, message: KeyStep, _: int) -> None:
        self._log(self._files.apply(message))
        if self._agent.member:
            self._agent.send(KeyState(*self._ring.fingerprints()))

    def _log(self, lines: list[str]) -> None:
        for line in lines:
            log.info("%s", line)
