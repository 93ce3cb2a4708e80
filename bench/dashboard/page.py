"""The dashboard's server as a process, and headless Chromium, for the benchmark and the tests. An edge: processes.

    with WebServer(store_url, tmp) as server, browser() as chromium, chromium.new_page() as page:
        page.goto(server.url)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from playwright.sync_api import Browser, sync_playwright

from emulation.processes import end_process

START_S = 15.0
STOP_S = 3.0


class WebServer:
    """Runs `python -m webui.serve` inside a `with` block."""

    def __init__(self, store: str, directory: Path, *, port: int = 0) -> None:
        """`directory` gets the log and the users file; port 0: any free port."""
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.users = directory / "users.json"
        self._store = store
        self._log = directory / "web.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server; returns when it answers. Raises RuntimeError with its log: it does not."""
        command = [sys.executable, "-m", "webui.serve", "--store", self._store]
        command += ["--port", str(self.port), "--users", str(self.users)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/login", timeout=1):
                return
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.stop()
                raise RuntimeError(f"the dashboard's server did not start:\n{self._log.read_text()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server."""
        if self.process is None:
            return
        end_process(self.process, STOP_S)
        self.process = None

    def cpu_s(self) -> float:
        """Processor time of the server and its workers so far, seconds."""
        assert self.process is not None
        pids = [self.process.pid, *_children(self.process.pid)]
        ticks = 0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime, stime: proc(5)
        return ticks / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Runs this system's Chromium without a window. Raises RuntimeError: it is not installed."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise RuntimeError("chromium is not installed: apt-get install chromium")
    with sync_playwright() as driver:
        # Chromium has no sandbox for root; only our own page is loaded
        made = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield made
        finally:
            made.close()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
