"""The web server as a process, a client of its stream, and a continuous feed: for tests over a private Redis."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.store.private_redis import PrivateRedis
from tests.emulation.operating import free_port, listening, wait_for
from tests.emulation.webui.web_feed import Feed

START_S = 20.0


class Stream:
    """A client of the stream, reading in a thread."""

    def __init__(self, port: int, last_id: str | None = None) -> None:
        self.told: list[tuple[str, Any]] = []
        self.last_id = ""
        self.comments = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self._connection.request("GET", "/api/stream", headers={} if last_id is None else {"Last-Event-ID": last_id})
        self._answer = self._connection.getresponse()
        assert self._answer.getheader("Content-Type", "").startswith("text/event-stream")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        name = ""
        try:
            for line in self._answer:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    self.last_id = value
                elif field == "data":
                    self.told.append((name, json.loads(value)))
                elif line.startswith(b":"):
                    self.comments += 1
        except (OSError, ValueError, AttributeError):
            pass  # closed while it read

    def named(self, name: str) -> list[Any]:
        return [value for told, value in self.told if told == name]

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)


class Server:
    """`python -m webui.serve` over a private Redis."""

    def __init__(self, directory: Path, redis: PrivateRedis, *words: str) -> None:
        self.port = free_port()
        self.redis = redis
        command = [sys.executable, "-m", "webui.serve", "--store", redis.url, "--port", str(self.port)]
        command += ["--users", str(directory / "users.json"), *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: listening(self.port) or self.process.poll() is not None, START_S)
        assert self.process.poll() is None, self.process.stdout and self.process.stdout.read()

    def get(self, path: str) -> tuple[int, bytes, float]:
        """Status, body, and how long it took (s)."""
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body, time.perf_counter() - began

    @property
    def pid(self) -> int:
        """Of the process that serves."""
        return self.process.pid

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=10)


@contextmanager
def feeding(feed: Feed, period_s: float) -> Iterator[None]:
    """Advances the feed in a thread."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(period_s):
            feed.advance()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def cpu_s(pid: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
