"""The dashboard while 2,000 hostile connections are open: how long an operator waits for the page.

Method: the server (`python -m webui.serve`) over a private Redis with a small fabric, on loopback. A process of its own opens
connections from forty addresses (127.0.0.2 to 127.0.0.41), a quarter each of

* `idle`: connected, silent;
* `half`: the beginning of a request, then a header line every two seconds;
* `slow`: a request for the largest file, with a receive buffer of 4 KiB, which the client does not read;
* `stream`: an event stream, read to the end;

and opens one again half a second after the server has closed it. After `SETTLE_S` an operator who has logged in before loads
the page ten times, each time by a new connection: `/`, the script, `/api/fabric`, `/api/state`, one after the other. So does
one at an address of the attackers. Then the operator logs in anew, and opens an event stream, up to the first state.

* `load_ms`, `same_address_ms`: of these loads, min, p50, max; one that fails or takes longer than `PATIENCE_S` counts as that;
* `login_ms`, `stream_ms`: likewise, once;
* `held`: hostile connections that the server has open at the end, by kind; `resident_mb`: the server's memory then.

Run it on an otherwise idle machine: `baton bench hostile`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.dashboard.page import WebServer
from controller.store.private_redis import PrivateRedis
from emulation.processes import end_process
from webui.access.accounts import Accounts

CONNECTIONS, ADDRESSES = 2_000, 40
KINDS = ("idle", "half", "slow", "stream")
AGAIN_S, DRIP_S = 0.5, 2.0
SETTLE_S = 8.0
LOADS = 10
PATIENCE_S = 5.0
USER, PASSWORD = "ann", "correct horse battery"
HOME, SHARED = "127.0.0.1", "127.0.0.2"


class Operator:
    """A browser, as far as the server sees one: its address and its cookies."""

    def __init__(self, port: int, address: str) -> None:
        self._port, self._address = port, address
        self.cookies: dict[str, str] = {}

    def connect(self) -> http.client.HTTPConnection:
        """A new connection."""
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S, source_address=(self._address, 0))

    def ask(self, connection: http.client.HTTPConnection, method: str, path: str, form: dict[str, str] | None = None) -> bytes:
        """Sends a request and returns the body. Raises OSError, http.client.HTTPException."""
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        body = None
        if form is not None:
            body = urllib.parse.urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        for line in answer.headers.get_all("Set-Cookie", ()):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        found = answer.read()
        if answer.status >= 400:
            raise OSError(f"{method} {path}: {answer.status}")
        return found

    def log_in(self) -> None:
        """Logs in. Raises OSError, http.client.HTTPException."""
        with contextlib.closing(self.connect()) as connection:
            csrf = json.loads(self.ask(connection, "GET", "/api/session"))["csrf"]
            self.ask(connection, "POST", "/login", {"user": USER, "password": PASSWORD, "csrf_token": csrf})

    def load(self) -> None:
        """Loads the page as a browser that has nothing cached. Raises OSError, http.client.HTTPException."""
        with contextlib.closing(self.connect()) as connection:
            page = self.ask(connection, "GET", "/").decode()
            script = re.search(r"/assets/[^\"']+\.js", page)
            for path in (script[0] if script else "/", "/api/fabric", "/api/state"):
                self.ask(connection, "GET", path)

    def first_state(self) -> None:
        """Opens an event stream, and returns when the first state has come. Raises OSError, http.client.HTTPException."""
        with contextlib.closing(self.connect()) as connection:
            cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            connection.request("GET", "/api/stream", headers={"Cookie": cookies})
            answer = connection.getresponse()
            if answer.status >= 400:
                raise OSError(f"stream: {answer.status}")
            while b"event: state" not in answer.readline():
                pass


def run(connections: int = CONNECTIONS) -> dict[str, Any]:
    """The figures of the module's docstring, as JSON values."""
    with tempfile.TemporaryDirectory(prefix="baton-hostile-") as name:
        directory = Path(name)
        with PrivateRedis(directory) as redis, WebServer(redis.url, directory) as server:
            Accounts(server.users).set_user(USER, PASSWORD, now_s=int(time.time()))
            command = [sys.executable, "-m", "bench.dashboard.feed", "--store", redis.url]
            feed = subprocess.Popen(command, stdout=subprocess.PIPE)
            try:
                assert feed.stdout is not None
                feed.stdout.readline()  # a line says that the first documents are in the store
                return _attacked(server, connections)
            finally:
                end_process(feed, 3.0)


def _attacked(server: WebServer, connections: int) -> dict[str, Any]:
    operators = Operator(server.port, HOME), Operator(server.port, SHARED)
    for one in operators:
        one.log_in()
        one.load()
    command = [sys.executable, "-m", "bench.dashboard.hostile", str(server.port), str(connections)]
    attack = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(SETTLE_S)
        loads, shared = [_took_ms(operators[0].load) for _ in range(LOADS)], [_took_ms(operators[1].load) for _ in range(LOADS)]
        login, stream = _took_ms(Operator(server.port, HOME).log_in), _took_ms(operators[0].first_state)
        assert server.process is not None
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        told, _ = attack.communicate(input="end", timeout=30)
    finally:
        end_process(attack, 3.0)
    resident = re.search(r"VmRSS:\s+([0-9]+)", status)
    return {
        "connections": connections,
        "load_ms": _summary(loads),
        "same_address_ms": _summary(shared),
        "login_ms": login,
        "stream_ms": stream,
        "held": json.loads(told),
        "resident_mb": int(resident[1]) // 1024 if resident else None,
        "cpus": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
    }


def _took_ms(work: Callable[[], None]) -> int:
    began = time.perf_counter()
    try:
        work()
    except (OSError, http.client.HTTPException, ValueError):
        return int(PATIENCE_S * 1000)
    return min(round((time.perf_counter() - began) * 1000), int(PATIENCE_S * 1000))


def _summary(values: list[int]) -> dict[str, float]:
    return {"min": min(values), "p50": statistics.median(values), "max": max(values)}


# -- the attackers ----------------------------------------------------------------------------------------------------------


class Attack:
    """Hostile connections to one port, and how many of each kind are open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.held: Counter[str] = Counter()

    async def keep(self, number: int) -> None:
        """One connection, which is opened again whenever the server closes it."""
        kind = KINDS[number % len(KINDS)]
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._once(kind, f"127.0.0.{2 + number // len(KINDS) % ADDRESSES}")
            await asyncio.sleep(AGAIN_S)

    async def _once(self, kind: str, address: str) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as connection:
            if kind == "slow":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.bind((address, 0))
            connection.setblocking(False)
            await loop.sock_connect(connection, ("127.0.0.1", self._port))
            self.held[kind] += 1
            try:
                await getattr(self, f"_{kind}")(loop, connection)
            finally:
                self.held[kind] -= 1

    async def _idle(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        await loop.sock_recv(connection, 1)

    async def _half(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        await loop.sock_sendall(connection, b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        while True:
            await loop.sock_sendall(connection, b"X-Wait: a\r\n")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(loop.sock_recv(connection, 1), DRIP_S)
                return

    async def _slow(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        await loop.sock_sendall(connection, b"GET /assets/any/baton.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while True:  # nothing is read, so only a write shows that the server has gone
            await asyncio.sleep(AGAIN_S)
            await loop.sock_sendall(connection, b"\r\n")

    async def _stream(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        await loop.sock_sendall(connection, b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while await loop.sock_recv(connection, 65_536):
            pass


async def _attack(port: int, connections: int) -> None:
    attack = Attack(port)
    tasks = [asyncio.create_task(attack.keep(number)) for number in range(connections)]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read, 1)
    sys.stdout.write(json.dumps({kind: attack.held[kind] for kind in KINDS}) + "\n")
    sys.stdout.flush()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main(arguments: list[str]) -> int:
    """The attackers' process: `python -m bench.dashboard.hostile PORT CONNECTIONS`; ends at the first byte of its input."""
    port, connections = map(int, arguments)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most if most != resource.RLIM_INFINITY else connections + 100, most))
    asyncio.run(_attack(port, connections))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
