"""What the application gets of a request, and what the server gets of its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.httputil import HTTPHeaders, HTTPInputError, RequestStartLine

from webui.server.front import Request
from webui.server.wsgi import Answer, environ
from webui.settings import SUBSCRIPTION


def request(target: str = "/", body: bytes = b"", **headers: str) -> dict[str, Any]:
    start = RequestStartLine("GET", target, "HTTP/1.1")
    named = HTTPHeaders({name.replace("__", "-"): value for name, value in headers.items()})
    return environ(start, named, body, scheme="https", remote="10.0.0.1", name="box", port=8443)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a%20b?x=1&y=%2F", "/a b", "x=1&y=%2F"),
        ("/a?", "/a", ""),
        ("http://other.example/a?x=1", "/a", "x=1"),
        ("http://other.example", "/", ""),
    ],
)
def test_path_and_query_come_from_the_target_also_in_a_proxys_form(target: str, path: str, query: str) -> None:
    made = request(target)
    assert (made["PATH_INFO"], made["QUERY_STRING"]) == (path, query)


def test_a_header_with_an_underscore_does_not_pass_for_another() -> None:
    made = request(X__Real="mine", X_Real="forged", Content__Length="3")
    assert made["HTTP_X_REAL"] == "mine"
    assert made["CONTENT_LENGTH"] == "3"
    assert "HTTP_CONTENT_LENGTH" not in made


def test_the_application_reads_the_body_and_learns_client_and_server() -> None:
    made = request(body=b"abc")
    assert made["wsgi.input"].read() == b"abc"
    assert [made[key] for key in ("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "wsgi.url_scheme")] == [
        "10.0.0.1", "box", "8443", "https",
    ]  # fmt: skip


class Parts:
    def __init__(self) -> None:
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        yield from (b"a", b"b")

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_is_whole_and_closed_unless_it_is_an_event_stream(streams: bool) -> None:
    parts = Parts()

    def app(made: dict[str, Any], begin: Callable[..., Any]) -> Parts:
        begin("404 Not Found", [("X", "1")])
        if streams:
            made[SUBSCRIPTION] = object()
        return parts

    answer = Answer(app, request())
    assert (answer.status, answer.reason, answer.headers) == (404, "Not Found", [("X", "1")])
    assert (answer.body, parts.closed) == ((b"", 0) if streams else (b"ab", 1))
    answer.close()
    answer.close()
    assert parts.closed == 1


def test_a_body_whose_request_has_no_readable_target_is_given_back() -> None:
    door: Any = SimpleNamespace(bodies=Counter(), counts=Counter(), name="box", port=8443)
    connection: Any = SimpleNamespace(context=SimpleNamespace(protocol="https"))
    one = Request(door, SimpleNamespace(), connection, "10.0.0.1")  # type: ignore[arg-type]  # a stream that nobody uses
    one.headers_received(RequestStartLine("POST", "http://[x/", "HTTP/1.1"), HTTPHeaders({"Host": "box"}))
    one.data_received(bytes(1000))
    with pytest.raises(HTTPInputError):
        one.finish()
    assert not door.bodies
