"""A host's part in a change of keys: loads the new ones from its file, drops the old ones when the leader says, or has taken
a newer key of this host's.

The ring itself chooses the key to send with (protocol/keyring.py). An edge: reads the files once a second,
or as often as it reports where that is less often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic

from agents.loop.pace import Pace
from agents.loop.part import Part, Surroundings
from protocol.auth import KeyFileError
from protocol.bodies.keys import KeyState, KeyStep
from protocol.key_files import KeyFiles
from protocol.keyring import K, KeyRing
from protocol.keys import host_file
from protocol.keys.hosts import Credentials
from protocol.messages import Welcome

log = logging.getLogger("baton.agent")

LOOK_NS = 1_000_000_000
AGAIN_NS, MOST_AGAIN_NS = 4_000_000_000, 64_000_000_000
"""How long the agent waits for the leader to take a newer key before it registers again; then twice as long, each time."""


def of_host(name: str, address: Callable[[], bytes]) -> Callable[[Path], Credentials]:
    """Reads files of one host alone: its keys at its present MAC address. What it returns raises KeyFileError."""

    def load(path: Path) -> Credentials:
        secret = host_file.load(path)
        if secret.name != name:
            remedy = f"restart the agent, so that it is {secret.name}, or remove the file"
            raise KeyFileError(f"key file {path}: {secret.name} was enrolled with it, and this agent is {name}; {remedy}")
        return secret.at(address())

    return load


class Keys(Part, Generic[K]):
    """Keeps the agent's ring in step with the key files and the leader's KEY_STEP messages."""

    def __init__(
        self,
        agent: Surroundings,
        ring: KeyRing[K],
        path: Path,
        load: Callable[[Path], K] | None = None,
        announce: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`load` reads a file; `announce` registers again, at a time (ns): a newer key of this host's is there."""
        self._pace = Pace(LOOK_NS)
        self.handlers = {KeyStep: self._on_step, Welcome: self._pace.welcomed}
        self._agent = agent
        self._ring = ring
        self._files = KeyFiles(path, ring, load)
        self._announce = announce
        self._due_ns = self._again_ns = 0
        self._after_ns = AGAIN_NS

    def look(self, *_: object) -> None:
        """Reads the files at the next call of any part; a signal handler."""
        self._due_ns = 0

    def next_due_ns(self) -> int | None:
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        if now_ns >= self._due_ns:
            self._due_ns = self._pace.after(now_ns)
            renewed = self._ring.renews
            self._log(self._files.refresh())
            if self._ring.renews:
                if not renewed:
                    self._again_ns, self._after_ns = now_ns, AGAIN_NS
                self._log(self._files.settle())
            if self._ring.renews and now_ns >= self._again_ns:
                self._again_ns, self._after_ns = now_ns + self._after_ns, min(2 * self._after_ns, MOST_AGAIN_NS)
                self._announce(now_ns)

    def _on_step(self, message: KeyStep, _: int) -> None:
        self._log(self._files.apply(message))
        if self._agent.member:
            self._agent.send(KeyState(*self._ring.fingerprints()))

    def _log(self, lines: list[str]) -> None:
        for line in lines:
            log.info("%s", line)
