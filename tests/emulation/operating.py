"""What an operator does by hand: runs commands, looks who listens and answers on this machine, and waits for it."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable


def baton(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the `baton` of this tree to its end, whatever its status."""
    command = [sys.executable, "-m", "cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def free_port() -> int:
    """A TCP port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Whether somebody listens on a TCP port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def http_status(port: int, path: str = "/") -> int:
    """The status of the answer to a GET; 0 if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def wait_for(condition: Callable[[], object], seconds: float = 15.0) -> None:
    """Waits until the condition holds; the test fails if it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.005)
