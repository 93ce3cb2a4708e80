"""Waiting for what others do. An edge: the clock."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float, interval_s: float = 0.02) -> bool:
    """Calls the condition every `interval_s` until it holds; False if it does not within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True
