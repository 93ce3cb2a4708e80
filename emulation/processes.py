"""Ending a process and waiting for a condition, as emulation and benchmarks do everywhere. An edge: processes, the clock."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

STOP_S = 5.0


def end_process(process: subprocess.Popen[Any], timeout_s: float = STOP_S) -> None:
    """Sends SIGTERM, waits, and sends SIGKILL to a process that has not ended within `timeout_s`."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], object], timeout_s: float, interval_s: float = 0.02) -> bool:
    """Calls the condition every `interval_s` until it holds; False if it does not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True
