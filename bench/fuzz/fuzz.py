"""Fuzzes control frames, REST and OpenFlow: how many were tried, how many crashed something, how many forgeries succeeded.

Methods: bench/fuzz/frames.py, bench/fuzz/rest.py, bench/fuzz/openflow.py. All are seeded; a finding is
recorded with its seed, run and input.
tests/fuzz/fuzz_decode.py fuzzes the frames' bytes by coverage, too.
"""

from __future__ import annotations

import logging
from typing import Any

from bench.fuzz import frames, openflow, rest


def run(seconds: float = 60.0, seed: int = 1) -> dict[str, Any]:
    """Fuzzes frames, requests and OpenFlow for a third of the time each. {"frames": {...}, "rest": {...}, "openflow": {...},
    "runs", "crashes", "accepted_forgeries", "seed"}."""
    each_s = seconds / 3
    try:
        parts = {"openflow": openflow.fuzz(each_s, seed)}  # before its parsers' logs are silenced: it counts them
        logging.disable(logging.CRITICAL)  # a log line for each refusal would take most of the time
        parts |= {"frames": frames.fuzz(each_s, seed), "rest": rest.fuzz(each_s, seed)}
    finally:
        logging.disable(logging.NOTSET)
    sums = {name: sum(part[name] for part in parts.values()) for name in ("runs", "forgeries", "crashes", "accepted_forgeries")}
    return {"seconds": seconds, "seed": seed, **sums, **parts}
