"""The web server's process: `python -m webui.serve [--store URL]`. An edge: processes, sockets, scheduling.

Gunicorn runs one worker process whose threads share one reader of the store; each open dashboard occupies a thread with its
stream. The process has a low ordinary priority, so that a dashboard never delays a slot.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from controller.store.store import Store, StoreUnavailable
from webui.access.auth import bind_error
from webui.app import create_app
from webui.http.stream import CLIENTS_MAX
from webui.settings import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_USERS, WebSettings

NICENESS = 15
THREADS = CLIENTS_MAX + 16


class CannotServe(Exception):
    """The server can't start; the text is one line with the field and the remedy."""


class Server(BaseApplication):  # type: ignore[misc]  # it publishes no types
    """Gunicorn, configured by `WebSettings` instead of a file of its own."""

    def __init__(self, store: str, settings: WebSettings) -> None:
        self._store = store
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Sets gunicorn's configuration; gunicorn calls this."""
        settings = self._settings
        values: dict[str, Any] = {
            "bind": [address(settings)],
            "worker_class": "gthread",
            "workers": 1,
            "threads": THREADS,
            "graceful_timeout": 1,
            "keepalive": 15,
            "loglevel": "warning",
            "proc_name": "baton-web",
            "worker_tmp_dir": "/dev/shm",
            "limit_request_fields": 64,
        }
        if settings.secure:
            values |= {"certfile": str(settings.cert), "keyfile": str(settings.key)}
        for name, value in values.items():
            self.cfg.set(name, value)

    def load(self) -> Any:  # noqa: ANN401 -- a WSGI application
        """Makes the application; gunicorn calls this in the worker's process."""
        return create_app(Store(self._store), settings=self._settings)


def address(settings: WebSettings) -> str:
    """HOST:PORT, with an IPv6 address in brackets."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{host}:{settings.port}"


def url(settings: WebSettings) -> str:
    """The dashboard's URL."""
    return f"{'https' if settings.secure else 'http'}://{address(settings)}"


def check(store: str, settings: WebSettings) -> None:
    """Raises CannotServe: the address needs TLS, `cert` or `key` is missing, the port is in use, the store's URL is wrong."""
    if (wrong := bind_error(settings.host, tls=settings.secure)) is not None:
        raise CannotServe(wrong)
    if (settings.cert is None) != (settings.key is None):
        raise CannotServe("cert, key: only one is given; give both, or neither")
    for name, path in (("cert", settings.cert), ("key", settings.key)):
        if path is not None and not path.is_file():
            raise CannotServe(f"{name}: {path} does not exist; name a PEM file")
    try:
        Store(store).close()
    except StoreUnavailable as error:
        raise CannotServe(str(error)) from None
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with contextlib.closing(socket.socket(family[0], family[1])) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(family[4])
    except OSError as error:
        raise CannotServe(f"listen: {address(settings)}: {error.strerror}; choose another address or port") from None


def run(store: str, settings: WebSettings) -> None:
    """Serves the dashboard until a signal ends the process. Raises CannotServe."""
    check(store, settings)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(NICENESS)
    Server(store, settings).run()


def main(arguments: list[str] | None = None) -> int:
    """The process that `baton up` starts; returns its exit status."""
    parser = argparse.ArgumentParser(prog="serve")
    parser.add_argument("--store", default=os.environ.get("BATON_REDIS", ""), help="the store's URL; default: $BATON_REDIS")
    parser.add_argument("--host", default=DEFAULT_HOST)
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    parser.add_argument("--cert", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--users", type=Path, default=DEFAULT_USERS)
    parser.add_argument("--login-to-read", action="store_true")
    parser.add_argument("--name", action="append", default=[])
    options = parser.parse_args(arguments)
    settings = WebSettings(
        host=options.host,
        port=options.port,
        cert=options.cert,
        key=options.key,
        users=options.users,
        login_to_read=options.login_to_read,
        names=tuple(options.name),
    )
    try:
        run(options.store, settings)
    except CannotServe as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
