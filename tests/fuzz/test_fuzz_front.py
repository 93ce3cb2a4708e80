"""Arbitrary request lines, headers and bodies reach the whole web server: each gets an answer, and every turn comes back."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tornado.netutil import bind_sockets

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.webui.web_feed import Feed
from webui.access.accounts import Accounts
from webui.app import create_app
from webui.server import front
from webui.settings import WebSettings

pytestmark = needs.REDIS

EXAMPLES = 400
PATIENCE_S = 10.0
KNOWN = (
    b"/", b"/login", b"/logout", b"/api/session", b"/api/state", b"/api/control", b"/api/stream", b"/api/events",
    b"/api/refused",
    b"/api/members", b"/api/node/", b"/v1.0/policy", b"/v1.0/schedule", b"/v1.0/topology/switches/", b"/metrics", b"/assets/x/",
    b"http://", b"http://[", b"//", b"*",
)  # fmt: skip
NAMES = (
    b"Host", b"Origin", b"Referer", b"Cookie", b"Authorization", b"Accept", b"Accept-Encoding", b"Accept-Language", b"Range",
    b"If-None-Match", b"If-Modified-Since", b"If-Range", b"Last-Event-ID", b"Content-Type", b"X-CSRF-Token", b"X-Forwarded-For",
    b"Connection", b"Date", b"Cache-Control", b"X-HTTP-Method-Override", b"Upgrade",
)  # fmt: skip
VALUES = (
    b"http://[x", b"null", b"Bearer ", b"Bearer baton_x_y", b"Basic ", b"baton=", b"bytes=", b"text/html;q=", b"W/\"",
    b"multipart/form-data; boundary=", b"application/x-www-form-urlencoded; charset=", b"application/json", b"127.0.0.1:",
    b"[::1",
)  # fmt: skip
line = st.binary(max_size=40)
token = st.text("ABCabc-", min_size=1, max_size=8).map(str.encode)
header = st.tuples(
    st.sampled_from(NAMES) | token | line, st.builds(bytes.__add__, st.just(b"") | st.sampled_from(VALUES), line)
).map(lambda pair: pair[0] + b": " + pair[1])
searched = st.text(max_size=10).map(lambda text: f"?search={text}".encode("utf-8", "replace"))
first = st.one_of(
    line,
    st.builds(
        b"%b %b%b %b".__mod__,
        st.tuples(
            st.sampled_from((b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS", b"DELETE", b"CONNECT")) | token,
            st.sampled_from(KNOWN),
            st.just(b"") | st.binary(max_size=20) | searched,
            st.sampled_from((b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.9")),
        ),
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request whose header ends, with a body of the length that it says."""
    headers = draw(st.lists(header, max_size=5))
    if draw(st.booleans()):
        headers.insert(0, b"Host: 127.0.0.1")
    body = draw(st.binary(max_size=60))
    if body:
        headers.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([draw(first), *headers, b"", body])


class Site:
    """The web server in a thread."""

    def __init__(self, door: front.Door, port: int) -> None:
        self.door, self.port = door, port
        self._sources = 0

    def ask(self, request: bytes) -> bytes:
        """The first line of the answer to a request of yet another visitor."""
        self._sources = self._sources % 60_000 + 1
        source = f"127.1.{self._sources // 250}.{self._sources % 250 + 1}", 0
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S, source_address=source) as connection:
            connection.sendall(request)
            answer = b""
            while b"\r\n" not in answer and (part := connection.recv(4096)):
                answer += part
        return answer.partition(b"\r\n")[0]

    def turns_free(self) -> int:
        """How many turns are free; waits until all are, for some time."""
        until = time.monotonic() + PATIENCE_S
        while self.door.turns._free < front.THREADS and time.monotonic() < until:
            time.sleep(0.001)
        return self.door.turns._free


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory: Path = tmp_path_factory.mktemp("front")
    Accounts(directory / "users.json").set_user("ann", "a password for the fuzzer", now_s=1)
    doors: list[front.Door] = []

    class Seen(front.Door):
        def __init__(self, *words: Any, **named: Any) -> None:  # noqa: ANN401 -- as a Door
            super().__init__(*words, **named)
            doors.append(self)

    switching, level = sys.getswitchinterval(), logging.getLogger("tornado").level
    with pytest.MonkeyPatch.context() as patch, PrivateRedis(directory) as redis:
        patch.setattr(front, "Door", Seen)
        Feed.small(Store(redis.url))
        app = create_app(Store(redis.url), settings=WebSettings(users=directory / "users.json"))
        sockets = bind_sockets(0, "127.0.0.1")
        loop, stopped = asyncio.new_event_loop(), asyncio.Event()
        serving = front.serve(app, sockets, context=None, stopped=stopped)
        thread = threading.Thread(target=loop.run_until_complete, args=(serving,))
        port = sockets[0].getsockname()[1]
        thread.start()
        while not doors:
            time.sleep(0.01)
        yield Site(doors[0], port)
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()
    sys.setswitchinterval(switching)
    logging.getLogger("tornado").setLevel(level)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(request_bytes=requests())
@example(request_bytes=b"GET http://[ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
@example(request_bytes=b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://[x\r\nContent-Length: 1\r\n\r\na")
def test_every_request_gets_an_answer_other_than_500_and_its_turn_comes_back(site: Site, request_bytes: bytes) -> None:
    answer = site.ask(request_bytes)
    assert re.match(rb"HTTP/1\.1 [2-5]\d\d ", answer) and not answer.startswith(b"HTTP/1.1 500"), answer
    assert site.turns_free() == front.THREADS
