"""Fuzzes control frames and REST requests: how many were tried, how many crashed something, and how many forgeries succeeded.

Methods: bench/fuzz/frames.py, bench/fuzz/rest.py. Both are seeded; a finding is recorded with its seed, run and input.
tests/fuzz/fuzz_decode.py fuzzes the frames' bytes by coverage, too.
"""

from __future__ import annotations

import logging
from typing import Any

from bench.fuzz import frames, rest


def run(seconds: float = 60.0, seed: int = 1) -> dict[str, Any]:
    """Fuzzes frames and requests for half of the time each. {"frames": {...}, "rest": {...}, "runs", "crashes",
    "accepted_forgeries", "seed"}."""
    logging.disable(logging.CRITICAL)  # a log line for each refusal would take most of the time
    try:
        parts = {"frames": frames.fuzz(seconds / 2, seed), "rest": rest.fuzz(seconds / 2, seed)}
    finally:
        logging.disable(logging.NOTSET)
    sums = {name: sum(part[name] for part in parts.values()) for name in ("runs", "forgeries", "crashes", "accepted_forgeries")}
    return {"seconds": seconds, "seed": seed, **sums, **parts}
