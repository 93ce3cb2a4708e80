"""The WSGI side of the server: a request as the application gets it (PEP 3333), and the application's answer."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from http.client import responses
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from tornado.httputil import HTTPHeaders, RequestStartLine

from webui.settings import SUBSCRIPTION

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def environ(
    start: RequestStartLine, headers: HTTPHeaders, body: bytes, *, scheme: str, remote: str, name: str, port: int
) -> dict[str, Any]:
    """Returns a request as PEP 3333 has it, of the client at `remote`, to the server `name`:`port`.

    Header names with an underscore are left out: they could pass for others. Raises ValueError: the target is no URL."""
    method, target, version = start
    if not target.startswith("/"):
        parts = urlsplit(target)  # a proxy's form: http://host/path
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    path, _, query = target.partition("?")
    request = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin1"),
        "QUERY_STRING": query,
        "REQUEST_URI": target,
        "REMOTE_ADDR": remote,
        "SERVER_NAME": name,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": version,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for header, value in headers.items():
        if "_" not in header:
            key = header.upper().replace("-", "_")
            request[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    return request


class Answer:
    """The application's answer to one request: status, headers, and a body, or an event stream that goes on until `close`."""

    def __init__(self, app: Application, environ: dict[str, Any]) -> None:
        self.environ = environ
        self.status, self.reason = 500, responses[500]
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self._parts = app(environ, self._begin)
        if SUBSCRIPTION in environ:
            return
        try:
            self.body = b"".join(self._parts)
        finally:
            self.close()

    def _begin(self, status: str, headers: list[tuple[str, str]], _: object = None) -> Callable[[bytes], object]:
        code, _, reason = status.partition(" ")
        self.status, self.reason, self.headers = int(code), reason or responses.get(int(code), ""), headers
        return self._refuse_write

    def _refuse_write(self, _: bytes) -> None:
        raise NotImplementedError("the application writes by returning its body")

    def close(self) -> None:
        """Ends the application's part. May be called again."""
        parts, self._parts = self._parts, ()
        if (close := getattr(parts, "close", None)) is not None:
            close()
