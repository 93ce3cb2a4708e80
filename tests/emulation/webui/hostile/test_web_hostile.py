"""The web server and hostile clients: nobody occupies it for long, or takes the place of others."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator

import pytest

from bench.dashboard import hostile
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.operating import wait_for
from tests.emulation.webui.web_feed import Feed
from tests.emulation.webui.web_process import Server, Stream
from webui.access.accounts import Accounts
from webui.server.front import EACH_THREADS

pytestmark = needs.REDIS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("web")
    Accounts(directory / "users.json").set_user(hostile.USER, hostile.PASSWORD, now_s=1)
    with PrivateRedis(directory) as redis:
        Feed.small(Store(redis.url))
        made = Server(directory, redis)
        yield made
        made.close()


def closed_after(connection: socket.socket, patience_s: float) -> float:
    """How long (s) until the server closes this connection."""
    connection.settimeout(patience_s)
    began = time.monotonic()
    while connection.recv(65_536):
        pass
    return time.monotonic() - began


class TestPatience:
    """No client occupies the server for longer than it must."""

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n",
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nuser=",
        ],
        ids=["idle", "half a header", "half a body"],
    )
    def test_a_request_that_does_not_come_whole_is_given_up(self, server: Server, sent: bytes) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(sent)
            assert closed_after(connection, 30) < 25  # 15, and what a busy machine adds

    def test_a_reader_of_the_stream_that_does_not_read_is_dropped(self, server: Server) -> None:
        def dashboards() -> float:
            lines = server.get("/metrics")[1].decode().splitlines()
            return next(float(line.split()[1]) for line in lines if line.startswith("baton_dashboards "))

        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.port))
            deaf.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: dashboards() == 1)
            wait_for(lambda: dashboards() == 0, 120)

    def test_slow_readers_at_the_address_of_a_browser_do_not_keep_it_out(self, server: Server) -> None:
        deaf = []
        for _ in range(100):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", server.port))
            one.sendall(b"GET /assets/any/baton.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
            deaf.append(one)
        time.sleep(1)
        for _ in range(5):
            assert server.get("/")[0] == 200
        for one in deaf:
            one.close()


class TestTurns:
    """Whatever a visitor asks for, the turn of the request comes back."""

    @pytest.mark.parametrize("target", ["http://[", "x://a]/?b"])
    def test_more_requests_without_a_readable_target_than_there_are_turns_are_refused_each(
        self, server: Server, target: str
    ) -> None:
        for source in range(1, 4):
            for _ in range(EACH_THREADS + 1):
                with socket.create_connection(("127.0.0.1", server.port), 5, source_address=(f"127.0.2.{source}", 0)) as one:
                    one.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                    assert one.recv(64).startswith(b"HTTP/1.1 400 ")
        assert server.get("/")[0] == 200


class TestStreams:
    """Visitors have few streams, and take none of the users'."""

    def test_visitors_streams_are_bounded_and_a_user_still_gets_one(self, server: Server) -> None:
        operator = hostile.Operator(server.port, "127.0.0.1")
        operator.log_in()
        opened, refused = [], 0
        for number in range(24):
            origin = f"127.0.1.{number + 1}", 0
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5, source_address=origin)
            connection.request("GET", "/api/stream")
            refused += connection.getresponse().status == 503
            opened.append(connection)
        assert refused == 8
        operator.first_state()
        for connection in opened:
            connection.close()

    def test_a_place_is_free_again_when_its_visitor_has_left(self, server: Server) -> None:
        for _ in range(40):
            stream = Stream(server.port)
            wait_for(lambda stream=stream: stream.named("state"))  # type: ignore[misc]
            stream.close()
