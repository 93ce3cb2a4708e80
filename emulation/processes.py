"""Ending a process, as emulation and benchmarks do everywhere. An edge: processes."""

from __future__ import annotations

import subprocess
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
