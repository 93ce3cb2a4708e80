"""The web server's process: `python -m webui.serve [--store URL]`. An edge: processes, sockets, scheduling.

One process: an event loop that holds the connections, a few threads that answer requests (webui/server/front.py), and one that
reads the store for all open dashboards. The process has a low ordinary priority, so that a dashboard never delays a slot.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import sys
from pathlib import Path

from tornado.netutil import bind_sockets

from controller.processes.logs import log_to_stderr
from controller.store.store import Store, StoreUnavailable
from protocol.key import open_to_others
from webui.access.auth import bind_error
from webui.app import create_app
from webui.server.front import BACKLOG, serve
from webui.settings import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_USERS, WebSettings

NICENESS = 15
COLLECT = (50_000, 20, 100)
"""When to collect garbage (gc.set_threshold): thousands of members' documents come and go, none of them in a cycle, and with
Python's own thresholds looking through them takes more time than reading them."""


class CannotServe(Exception):
    """The server can't start; the text is one line with the field and the remedy."""


def address(settings: WebSettings) -> str:
    """HOST:PORT, with an IPv6 address in brackets."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{host}:{settings.port}"


def url(settings: WebSettings) -> str:
    """The dashboard's URL."""
    return f"{'https' if settings.secure else 'http'}://{address(settings)}"


def check(store: str, settings: WebSettings) -> None:
    """Raises CannotServe: the address needs TLS, `cert` or `key` is missing, `key` is open to others, the port is in use, the
    store's URL is wrong."""
    if (wrong := bind_error(settings.host, tls=settings.secure)) is not None:
        raise CannotServe(wrong)
    if (settings.cert is None) != (settings.key is None):
        raise CannotServe("cert, key: only one is given; give both, or neither")
    if not all(name.strip(". ") for name in settings.names):
        raise CannotServe("name: one is blank, and no browser could ask for it; write the host's name, or leave it out")
    for name, path in (("cert", settings.cert), ("key", settings.key)):
        try:
            missing = path is not None and not path.is_file()
        except OSError as error:
            raise CannotServe(f"{name}: {path}: {error.strerror}; run this as a user who may read it") from None
        if missing:
            raise CannotServe(f"{name}: {path} does not exist; name a PEM file")
    if settings.key is not None and (complaint := open_to_others(settings.key.stat(), user=os.geteuid())):
        raise CannotServe(f"key: {settings.key}: {complaint}")
    _tls(settings)
    try:
        Store(store).close()
    except StoreUnavailable as error:
        raise CannotServe(str(error)) from None
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with contextlib.closing(socket.socket(family[0], family[1])) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(family[4])
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no host's name"
        raise CannotServe(f"listen: {address(settings)}: {why}; choose another address or port") from None


def run(store: str, settings: WebSettings) -> None:
    """Serves the dashboard until a signal ends the process. Raises CannotServe."""
    check(store, settings)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(NICENESS)
    gc.set_threshold(*COLLECT)
    log_to_stderr()
    asyncio.run(_serve(store, settings))


async def _serve(store: str, settings: WebSettings) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    sockets = bind_sockets(settings.port, settings.host, backlog=BACKLOG)
    await serve(create_app(Store(store), settings=settings), sockets, context=_tls(settings), stopped=stopped)


def _tls(settings: WebSettings) -> ssl.SSLContext | None:
    """What the server needs for TLS; None without it. Raises CannotServe: the files are not a certificate and its key."""
    if settings.cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(settings.cert, settings.key)
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise CannotServe(f"cert, key: {settings.cert}, {settings.key}: {reason}; name a certificate and its key") from None
    return context


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
