"""The HTTP server: Tornado's event loop in front of the WSGI application. An edge: sockets, threads, the clock.

A connection costs no thread. One loop reads whole requests, and the application answers each in a thread of a small pool, in
turns of the origins; the loop writes the answer. An event stream costs no thread either: the loop writes what its subscription
gets. Nothing waits for a client without end:

* `REQUEST_S` for the header of the next request, be the connection idle or in the middle of it (the TLS handshake counts);
* `BODY_S` for a request's body, which together with others of its origin takes at most `BODIES` bytes of memory;
* `SLOW_S` for each `CHUNK` bytes of an answer or of an event stream; the answers that one origin has not read yet take at most
  `ANSWERS` bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import logging
import resource
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream, StreamClosedError

from webui.access.origin import origin_of
from webui.server.connections import Connections
from webui.server.turns import Turns
from webui.server.wsgi import Answer, Application, environ
from webui.settings import STILL, SUBSCRIPTION, USER
from webui.state.subscription import Subscription

log = logging.getLogger("baton.web")

REQUEST_S = 15.0
BODY_S = 10.0
SLOW_S = 10.0
HEARTBEAT_S = 1.0
"""How often a stream without news sends a comment."""
KNOWN_S = 5.0
"""How often a stream looks whether its user still has access."""
TOLD_S = 60.0
"""How often the log gets a line with the counts of `Door.counts`, if there are any."""
CHUNK = 65_536
SEND_BUFFER = 65_536
"""The kernel's send buffer of a connection: what a client that does not read can have waiting."""
HEADER_BYTES = 16_384
BODIES = 2 << 20
"""Bytes of unfinished bodies that one origin may have waiting."""
ANSWERS = 16 << 20
"""Bytes of answers that one origin's slow readers may have waiting."""
DISCARDED_MAX = 8 << 20
"""A longer body is refused at once; a shorter one that is still too long for the application is read and thrown away."""
EACH_ORIGIN, EACH_USER, TOTAL = 64, 64, 4_096
THREADS, EACH_THREADS = 8, 4
SWITCH_S = 0.001
"""How long a thread may keep the interpreter: the loop shares it with `THREADS` others."""
BACKLOG = 1_024
RESERVED_FILES = 128
"""Of the process, for everything but connections."""


class Door:
    """The state that all connections share: who is connected, whose turn it is, and what was refused."""

    def __init__(self, app: Application, *, name: str, port: int, total: int = TOTAL) -> None:
        self.app = app
        self.name, self.port = name, port
        self.connections: Connections[IOStream] = Connections(each=EACH_ORIGIN, user=EACH_USER, total=total)
        self.turns: Turns[asyncio.Future[None]] = Turns(running=THREADS, each=EACH_THREADS)
        self.bodies: Counter[str] = Counter()
        """Bytes of unfinished requests' bodies by origin."""
        self.answers: Counter[str] = Counter()
        """Bytes of answers that are being written, by origin."""
        self.pool = ThreadPoolExecutor(THREADS, "request")
        self.looks = ThreadPoolExecutor(1, "access")
        """Whether users of streams still have access; a store that doesn't answer keeps no request waiting by that."""
        self.counts: Counter[str] = Counter()
        self.tasks: set[asyncio.Task[None]] = set()

    def enter(self, stream: IOStream, origin: str) -> bool:
        """Whether a new connection may stay; closes the one that makes room for it."""
        verdict = self.connections.enter(stream, origin)
        if verdict.given_up is not None:
            self.counts["connections given up for newer ones"] += 1
            verdict.given_up.close()
        if not verdict.admitted:
            self.counts["connections refused"] += 1
        return verdict.admitted

    async def turn(self, origin: str) -> None:
        """Returns when it is this origin's turn; `done` ends it. A cancelled wait needs no `done`."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wake(self.turns.ask(origin, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if not self.turns.give_up(origin, mine):
                self.done(origin)
            raise

    def done(self, origin: str) -> None:
        """Ends a turn of this origin."""
        self._wake(self.turns.done(origin))

    def _wake(self, chosen: list[asyncio.Future[None]]) -> None:
        for one in chosen:
            if not one.done():
                one.set_result(None)

    async def tell(self) -> None:
        """Writes a line into the log each minute in which something was refused or cut off."""
        while True:
            await asyncio.sleep(TOLD_S)
            if self.counts:
                told = ", ".join(f"{count} {cause}" for cause, count in sorted(self.counts.items()))
                log.warning("in %.0f s: %s; %d connections are open", TOLD_S, told, len(self.connections))
                self.counts.clear()


class Request(HTTPMessageDelegate):
    """One request of a connection: collects it, has the application answer it, and writes the answer."""

    def __init__(self, door: Door, stream: IOStream, connection: HTTP1Connection, remote: str) -> None:
        self._door, self._stream, self._connection, self._remote = door, stream, connection, remote
        self._origin = origin_of(remote)
        self._start = RequestStartLine("", "", "")
        self._headers = HTTPHeaders()
        self._body = bytearray()
        self._held = 0

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        """The header is complete. Raises HTTPInputError: it names no host, or several."""
        self._start, self._headers = cast(RequestStartLine, start_line), headers
        if len(headers.get_list("Host")) != 1 and self._start.version != "HTTP/1.0":
            raise HTTPInputError("needs one Host header")

    def data_received(self, chunk: bytes) -> None:
        """A part of the body came. Raises HTTPInputError: too many bytes of this origin wait already."""
        if self._held + len(chunk) > BODIES:
            return  # the application refuses it by its length
        if self._door.bodies[self._origin] + len(chunk) > BODIES:
            self._door.counts["bodies refused"] += 1
            raise HTTPInputError("too many unfinished bodies of one address")
        self._body += chunk
        self._held += len(chunk)
        self._door.bodies[self._origin] += len(chunk)

    def finish(self) -> None:
        """The request is complete. Raises HTTPInputError: its target can't be read."""
        try:
            request = self._environ()
        except ValueError as error:
            self._give_back()  # Tornado before 6.6 tells no end of a connection after this
            raise HTTPInputError(f"the target can't be read: {error}") from None
        self._door.connections.begin(self._stream)
        task = asyncio.get_running_loop().create_task(self._serve(request))
        self._door.tasks.add(task)
        task.add_done_callback(self._door.tasks.discard)
        # Nobody waits for an answer any more: the turn goes to another request.
        self._connection.set_close_callback(lambda: _cancel(task))

    def on_connection_close(self) -> None:
        """The connection ended before the request was complete."""
        self._give_back()

    def _give_back(self) -> None:
        self._door.bodies[self._origin] -= self._held
        self._held = 0
        if self._door.bodies[self._origin] <= 0:
            del self._door.bodies[self._origin]

    # -- the answer -----------------------------------------------------------------------------------------------------

    async def _serve(self, request: dict[str, Any]) -> None:
        try:
            answer = await self._answered(request)
            if (user := answer.environ.get(USER)) is not None:
                self._door.connections.recognise(self._stream, user)
            try:
                await self._write(answer)
            finally:
                answer.close()
        except TimeoutError:
            self._door.counts["slow readers dropped"] += 1
            self._stream.close()
        except (StreamClosedError, asyncio.CancelledError):
            self._stream.close()
        except Exception:
            log.exception("a request of %s could not be answered", self._origin)
            self._stream.close()
        finally:
            self._door.connections.end(self._stream)

    async def _answered(self, request: dict[str, Any]) -> Answer:
        """Has the application answer in a thread, when it is this origin's turn."""
        try:
            await self._door.turn(self._origin)
        except asyncio.CancelledError:
            self._give_back()
            raise
        try:
            work = asyncio.get_running_loop().run_in_executor(self._door.pool, Answer, self._door.app, request)
            work.add_done_callback(self._worked)
        except BaseException:  # whatever it is, the turn comes back
            self._give_back()
            self._door.done(self._origin)
            raise
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_close)
            raise

    def _worked(self, _: asyncio.Future[Answer]) -> None:
        """The thread is done, also if nobody waits for its answer any more."""
        self._give_back()
        self._door.done(self._origin)

    async def _write(self, answer: Answer) -> None:
        headers = HTTPHeaders()
        for name, value in answer.headers:
            headers.add(name, value)
        headers["Date"] = email.utils.formatdate(usegmt=True)
        first = ResponseStartLine("HTTP/1.1", answer.status, answer.reason)
        await self._sent(self._connection.write_headers(first, headers))
        subscription = answer.environ.get(SUBSCRIPTION)
        if subscription is not None and self._start.method != "HEAD":
            await self._tell(subscription, answer.environ[STILL])
        elif self._start.method != "HEAD":
            await self._send_whole(answer.body)
        self._connection.finish()

    async def _send_whole(self, body: bytes) -> None:
        """Writes a body. Raises TimeoutError: too much of this origin's waits for slow readers already."""
        waiting = self._door.answers
        if waiting[self._origin] and waiting[self._origin] + len(body) > ANSWERS:
            raise TimeoutError
        waiting[self._origin] += len(body)
        try:
            await self._send(body)
        finally:
            waiting[self._origin] -= len(body)
            if waiting[self._origin] <= 0:
                del waiting[self._origin]

    async def _send(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            await self._sent(self._connection.write(data[at : at + CHUNK]))

    async def _tell(self, subscription: Subscription, known: Callable[[], bool]) -> None:
        """Writes a stream's messages until the client leaves, does not keep up, or is a user whose access has ended."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        subscription.call_when_ready(lambda: loop.call_soon_threadsafe(woken.set))
        await self._send(b": welcome\n\n")
        looking, due_s = None, loop.time() + KNOWN_S
        while not self._stream.closed():
            if looking is None and loop.time() >= due_s:
                looking = loop.run_in_executor(self._door.looks, known)
            if looking is not None and looking.done():
                if not looking.result():
                    return
                looking, due_s = None, loop.time() + KNOWN_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), HEARTBEAT_S)
            woken.clear()
            await self._send(subscription.take() or b": still here\n\n")

    async def _sent(self, written: asyncio.Future[None]) -> None:
        """Waits until the kernel has the bytes. Raises TimeoutError: the client reads too slowly; StreamClosedError."""
        await asyncio.wait_for(written, SLOW_S)
        if self._stream.closed():
            raise StreamClosedError

    def _environ(self) -> dict[str, Any]:
        door, scheme = self._door, self._connection.context.protocol  # type: ignore[attr-defined]  # it is an `object`
        return environ(
            self._start, self._headers, bytes(self._body),
            scheme=scheme, remote=self._remote, name=door.name, port=door.port,
        )  # fmt: skip


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _close(work: asyncio.Future[Answer]) -> None:
    """Ends an answer that nobody waits for."""
    if not work.cancelled() and work.exception() is None:
        work.result().close()


class _Dispatcher(HTTPServerConnectionDelegate):
    """Makes a `Request` for each message of a connection."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        stream = cast(HTTP1ServerConnection, server_conn).stream
        connection = cast(HTTP1Connection, request_conn)
        return Request(self._door, stream, connection, connection.context.remote_ip)  # type: ignore[attr-defined]


class Front(HTTPServer):
    """Tornado's server, which admits connections by a `Door`."""

    door: Door

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """A connection was accepted; Tornado calls this."""
        if stream.socket is None or not self.door.enter(stream, origin_of(address[0])):
            stream.close()
            return
        with contextlib.suppress(OSError):
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """A connection was closed; Tornado calls this."""
        self.door.connections.leave(cast(HTTP1ServerConnection, server_conn).stream)
        super().on_close(server_conn)


def files() -> int:
    """Raises the limit of open files as far as it goes, and returns how many connections fit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = TOTAL + RESERVED_FILES
    soft = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), most))
    return max(EACH_ORIGIN, min(TOTAL, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED_FILES))


async def serve(
    app: Application, sockets: list[socket.socket], *, context: ssl.SSLContext | None, stopped: asyncio.Event
) -> None:
    """Serves until `stopped` is set; `context` is for TLS."""
    sys.setswitchinterval(SWITCH_S)
    logging.getLogger("tornado").setLevel(logging.CRITICAL)  # a stranger's bad request or handshake is no line in the log
    name, port = sockets[0].getsockname()[:2]
    door = Door(app, name=name, port=port, total=files())
    front = Front(
        _Dispatcher(door),
        ssl_options=context,
        max_header_size=HEADER_BYTES,
        max_body_size=DISCARDED_MAX,
        max_buffer_size=DISCARDED_MAX,
        idle_connection_timeout=REQUEST_S,
        body_timeout=BODY_S,
    )
    front.door = door
    front.add_sockets(sockets)
    told = asyncio.create_task(door.tell())
    await stopped.wait()
    told.cancel()
    front.stop()
    for task in list(door.tasks):
        task.cancel()
    await asyncio.gather(*door.tasks, return_exceptions=True)
    await front.close_all_connections()
    for pool in (door.pool, door.looks):
        pool.shutdown(wait=False, cancel_futures=True)
