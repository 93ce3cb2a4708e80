"""Listens for switches in place of the frameworks' server, and hands them only messages that `Stream` admits. An edge: sockets.

Both frameworks' servers end with the first connection that can't be accepted. This one serves on.
"""

from __future__ import annotations

import importlib
import logging
import os
import ssl
import time
from collections.abc import Callable
from typing import Any

from controller.config.loopback import is_loopback
from controller.openflow.framework import Framework
from controller.openflow.intake.budget import Budget
from controller.openflow.intake.stream import Stream, Unreadable

log = logging.getLogger("baton.openflow")

HANDSHAKE_S = 5
READ_BYTES = 16_384
CONNECTIONS_MAX = 1_024
TOLD_PER_S, TOLD_AT_ONCE = 1, 30
REASONS_MAX = 256
"""Peers of whose refusal we remember the reason, so that it is told once."""

Tell = Callable[[str, str], None]
Green = Any  # a socket of eventlet


class NotProtected(ValueError):
    """Switches elsewhere could connect without TLS; the text is one line with the field and the remedy."""


class Intake:
    """Counts what was refused since the start, over all connections."""

    def __init__(self, tell: Tell, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`tell` hears of refusals: the kind of event and its text; no more than TOLD_PER_S, whoever wants to fill the log."""
        self.clock = clock
        self._tell = tell
        self._budget = Budget(TOLD_PER_S, TOLD_AT_ONCE)
        self.malformed = 0
        self.frames_dropped = 0
        self._given_up: set[str] = set()

    def report(self, kind: str, text: str) -> None:
        """Logs a refusal and tells it."""
        if self._budget.take(self.clock()):
            log.warning("%s", text)
            self._tell(kind, text)

    def counts(self) -> dict[str, int]:
        """What was refused, by name, as it is published."""
        return {"malformed_messages": self.malformed, "frames_over_rate": self.frames_dropped}

    def parser_said(self, record: logging.LogRecord) -> bool:
        """A filter for the log of the framework's parser: counts each message that the parser gives up (a vendor's match field
        of another size, say), and tells each reason once, without the message's bytes."""
        self.malformed += 1
        text = f"a message could not be parsed: {record.exc_info[1]!r}" if record.exc_info else "a message could not be parsed"
        if text not in self._given_up and len(self._given_up) < REASONS_MAX:
            self._given_up.add(text)
            log.warning("%s", text)
        return False


def serve(framework: Framework, intake: Intake, current: Callable[[], ssl.SSLContext] | None) -> None:
    """Has the framework listen by our server; `current` gives the TLS context for each connection, None: no TLS.

    Raises:
        NotProtected: it would listen without TLS where others can reach it.
    """
    host = framework.conf.ofp_listen_host
    if current is None and not is_loopback(host):
        raise NotProtected(
            f"openflow.listen: {host or '0.0.0.0'} can be reached from elsewhere; write cert, key and ca under openflow.tls, "
            "or listen on 127.0.0.1"
        )
    logging.getLogger(f"{framework.root}.ofproto.ofproto_parser").addFilter(intake.parser_said)
    controller: Any = importlib.import_module(f"{framework.root}.controller.controller")
    handle, sleep = controller.datapath_connection_factory, framework.hub.sleep

    def guarded(connection: Green, address: tuple[Any, ...]) -> None:
        handle(Guarded(connection, address[0], intake, lambda: sleep(0)), address)

    controller.datapath_connection_factory = guarded
    controller.StreamServer = lambda address, handle, **_: _Server(address, handle, intake, current)


class Guarded:
    """A connected socket from which the framework reads only what `Stream` admits; it writes as ever."""

    def __init__(self, connection: Green, peer: str, intake: Intake, pause: Callable[[], None]) -> None:
        self._connection = connection
        self._peer = peer
        self._intake = intake
        self._pause = pause
        self._stream = Stream(intake.clock())
        self._ready = bytearray()
        self._told: set[str] = set()

    def recv(self, size: int) -> bytes:
        """As a socket's; b"" ends the connection. Lets the other connections take their turn before each read."""
        try:
            while not self._ready:
                self._pause()
                self._stream.wait(self._intake.clock())
                data = self._connection.recv(READ_BYTES)
                if not data:
                    return b""
                self._ready += self._stream.feed(data, self._intake.clock())
                self._count()
        except Unreadable as error:
            self._intake.malformed += 1
            self._tell("switch_refused", f"a switch at {self._peer} is refused: {error}")
            return b""
        given = bytes(self._ready[:size])
        del self._ready[:size]
        return given

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever a socket has
        return getattr(self._connection, name)

    def _count(self) -> None:
        stream, intake = self._stream, self._intake
        if stream.malformed:
            intake.malformed += stream.malformed.total()
            for reason in stream.malformed:
                self._tell("openflow_malformed", f"a switch at {self._peer} sent a message that was dropped: {reason}")
            stream.malformed.clear()
        if stream.frames_dropped:
            intake.frames_dropped += stream.frames_dropped
            stream.frames_dropped = 0
            self._tell("frames_dropped", f"a switch at {self._peer} passes on more frames than we take; some were dropped")

    def _tell(self, kind: str, text: str) -> None:
        if text not in self._told:  # the texts have no number of the sender's: they are few
            self._told.add(text)
            self._intake.report(kind, text)


class _Server:
    """Takes the place of the frameworks' StreamServer."""

    def __init__(
        self,
        address: tuple[str, int],
        handle: Callable[[Any, Any], None],
        intake: Intake,
        current: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        import eventlet  # patched by the framework first
        from eventlet.green import socket

        self._eventlet: Any = eventlet
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            self._listener: Any = eventlet.listen(address, family=family)
        except OSError as error:
            # The framework would go on without a server; who has started the process starts it again.
            log.error("openflow.listen: %s:%d: %s", *address[:2], error.strerror)
            os._exit(1)
        self._handle = handle
        self._intake = intake
        self._current = current
        self._serving = 0
        self._refused: dict[str, str] = {}

    def serve_forever(self) -> None:
        """Takes every connection there is room for; a connection that fails harms no other."""
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError as error:  # out of descriptors, or the peer has gone again
                self._refuse("?", str(error))
                self._eventlet.sleep(0.1)
                continue
            if self._serving >= CONNECTIONS_MAX:
                self._refuse(address[0], f"{CONNECTIONS_MAX} connections are open already")
                connection.close()
                continue
            self._serving += 1
            self._eventlet.spawn(self._serve, connection, address)

    def _serve(self, connection: Green, address: tuple[Any, ...]) -> None:
        try:
            if self._current is not None:
                connection = self._secured(connection)
        except OSError as error:  # of which SSLError is one
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", None) or str(error)
            self._refuse(address[0], f"{reason}; see docs/operating.md on certificates")
            connection.close()
        else:
            self._refused.pop(address[0], None)
            self._handle(connection, address)
        finally:
            self._serving -= 1

    def _secured(self, connection: Green) -> Green:
        assert self._current is not None
        green: Any = importlib.import_module("eventlet.green.ssl")
        with self._eventlet.Timeout(HANDSHAKE_S, TimeoutError("no handshake")):
            return green.GreenSSLSocket(connection, server_side=True, _context=self._current())

    def _refuse(self, peer: str, reason: str) -> None:
        if self._refused.get(peer) == reason:  # it connects again every few seconds
            return
        if len(self._refused) >= REASONS_MAX:
            self._refused.clear()
        self._refused[peer] = reason
        self._intake.report("switch_refused", f"a switch at {peer} is refused: {reason}")
