"""Asks an agent for marks, from a guest (UDP) or as the operator on the agent's host. An edge.

A guest needs nothing of this: two datagrams do (protocol/PROTOCOL.md, "Marks of guests' flows").
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from agents.guests.requests import Cause, encode
from agents.queues.classifier import Address

TRIES, ANSWER_S = 5, 0.5
PATIENCE_S = 3.0
"""How long a guest that is not known yet asks again."""
AGAIN_S = 0.3
ANSWER_MAX = 1 << 16


class NoAnswer(OSError):
    """No agent answers there."""


class MarkClient:
    """Asks one agent. Use it as a context."""

    def __init__(self, connected: socket.socket, where: str) -> None:
        self._socket = connected
        self._where = where

    @classmethod
    def of_guest(cls, agent: Address, port: int, source: Address | None = None) -> MarkClient:
        """Asks from within a guest: `source` is the guest's address to speak from. Raises NoAnswer: no way there."""
        family = socket.AF_INET if agent.version == 4 else socket.AF_INET6
        made = socket.socket(family, socket.SOCK_DGRAM)
        where = f"{agent} port {port}"
        try:
            if source is not None:
                made.bind((str(source), 0))
            made.connect((str(agent), port))
        except OSError as error:
            made.close()
            raise NoAnswer(error.errno, f"{where}: {error.strerror}") from None
        return cls(made, where)

    @classmethod
    def of_operator(cls, path: Path) -> MarkClient:
        """Asks on the agent's host. Raises NoAnswer: no agent hears at `path`, or only root may ask."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.bind("")  # an address of our own, for the answer
            made.connect(str(path))
        except OSError as error:
            made.close()
            why = f"{path}: {error.strerror}; start `baton agent --priorities --guests`, and ask as root"
            raise NoAnswer(error.errno, why) from None
        return cls(made, str(path))

    def ask(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The agent's answer to a request; proves our address first, and asks again while it does not know us yet.

        Raises:
            NoAnswer: none came.
        """
        end_s = time.monotonic() + PATIENCE_S
        while True:
            answer = self._exchange(fields)
            if "cookie" in answer:
                answer = self._exchange(fields | {"cookie": answer["cookie"]})
            if answer.get("refused") != Cause.UNKNOWN or time.monotonic() > end_s:
                return answer
            time.sleep(AGAIN_S)

    def _exchange(self, fields: dict[str, Any]) -> dict[str, Any]:
        self._socket.settimeout(ANSWER_S)
        for _ in range(TRIES):
            try:
                self._socket.send(encode(fields))
                answer = json.loads(self._socket.recv(ANSWER_MAX))
            except TimeoutError:
                continue
            except (OSError, ValueError) as error:
                why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "what came is no answer"
                raise NoAnswer(0, f"{self._where}: {why}; does an agent with --guests run there?") from None
            if isinstance(answer, dict):
                return answer
        raise NoAnswer(0, f"{self._where}: no answer; does an agent with --guests run there?")

    def __enter__(self) -> MarkClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
