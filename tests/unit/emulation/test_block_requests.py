"""What a program reports that asks for blocks and gets no connection to a server."""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Iterator

import pytest

from emulation.traffic import request_load

MS = 1_000_000


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a listener that connects all."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


def asked(*ports: int) -> argparse.Namespace:
    now_ns = time.monotonic_ns()
    until_ns = now_ns + 100 * MS
    servers = [f"127.0.0.1,{port}" for port in ports]
    return argparse.Namespace(
        servers=servers, size=1000, begin_ns=now_ns, from_ns=now_ns, until_ns=until_ns, bucket_ns=50 * MS
    )


def test_servers_that_the_network_lets_no_connection_through_to_are_counted(
    deaf: int, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_load, "CONNECT_TIMEOUT_S", 0.2)
    arguments = asked(server, deaf)
    length = -((arguments.from_ns - arguments.until_ns) // arguments.bucket_ns)
    assert request_load.request(arguments) == {
        "bytes": {server: 0, deaf: 0},
        "buckets": {server: [0] * length, deaf: [0] * length},
        "rounds_ns": [],
        "unconnected": 1,
    }


def test_a_server_that_is_connected_is_not_counted(server: int) -> None:
    assert request_load.request(asked(server))["unconnected"] == 0


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            request_load.request(asked(unused.getsockname()[1]))
