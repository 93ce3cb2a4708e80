"""The web server's process: `python -m webui.serve [--store URL]`. An edge: processes, sockets, scheduling.

Gunicorn with one worker process, whose threads share one reader of the store; a dashboard's stream keeps a thread. It runs at
the lowest ordinary priority: a dashboard never takes time from a slot.
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
    """What is missing; one line that names the field and the remedy."""


class Server(BaseApplication):  # type: ignore[misc]  # it publishes no types
    """Gunicorn, told by our settings instead of a file of its own."""

    def __init__(self, store: str, settings: WebSettings) -> None:
        self._store = store
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Gunicorn asks for its configuration."""
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
        """Gunicorn asks for the application, in the worker's process."""
        return create_app(Store(self._store), settings=self._settings)


def address(settings: WebSettings) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{host}:{settings.port}"


def url(settings: WebSettings) -> str:
    """What to type into a browser."""
    return f"{'https' if settings.secure else 'http'}://{address(settings)}"


def check(store: str, settings: WebSettings) -> None:
    """Raises CannotServe: an address that needs TLS, half of a certificate, a port in use, a URL that is none."""
    if (wrong := bind_error(settings.host, tls=settings.secure)) is not None:
        raise CannotServe(wrong)
    if (settings.cert is None) != (settings.key is None):
        raise CannotServe("cert, key: only one is given; give both, or neither")
    for name, path in (("cert", settings.cert), ("key", settings.key)):
        if path is not None and not path.is_file():
            raise CannotServe(f"{name}: {path} is not there; name a PEM file")
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
    """Serves until a signal ends it. Raises CannotServe."""
    check(store, settings)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(NICENESS)
    Server(store, settings).run()


def main(arguments: list[str] | None = None) -> int:
    """Started by `baton up`."""
    parser = argparse.ArgumentParser(prog="serve")
    parser.add_argument("--store", default=os.environ.get("BATON_REDIS", ""), help="its URL; else that in BATON_REDIS")
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
