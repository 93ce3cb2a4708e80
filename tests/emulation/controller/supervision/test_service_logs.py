"""The log of a process that runs for months takes bounded room."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from controller.processes import services
from controller.processes.services import Service, Services

WRITING = "import sys, time\nfor number in range(300):\n    print(f'{number:0100}', flush=True)\n    time.sleep(0.002)\n"


def test_a_log_is_trimmed_while_its_process_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "LOG_BYTES", 4_000)
    log, kept = tmp_path / "it.log", tmp_path / "it.log.1"
    one, other = socket.socketpair()
    made, longest, ended = Services(), 0, list[Service]()
    made.run(Service("it", [sys.executable, "-c", WRITING], {}, log))
    deadline = time.monotonic() + 30
    while not ended and time.monotonic() < deadline:
        ended, _ = made.turn(0.005, one)
        longest = max(longest, log.stat().st_size)
    made.stop_all()
    one.close()
    other.close()
    assert ended and longest < 20_000 and kept.stat().st_size < 20_000, "30,000 bytes were written"
    assert int(log.read_text().split()[-1]) == 299 or "299" in kept.read_text()
    assert b"\0" not in log.read_bytes(), "the process writes at the end of what is there"
