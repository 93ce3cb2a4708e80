"""Control frames and REST requests that nobody should believe: how many were tried, crashed something, or were believed.

Methods: bench/fuzz/frames.py, bench/fuzz/rest.py. Both are seeded, and a finding is told with its seed, run and input.
The frames' bytes are fuzzed by coverage, too: tests/fuzz/fuzz_decode.py.
"""

from __future__ import annotations

import logging
from typing import Any

from bench.fuzz import frames, rest


def run(seconds: float = 60.0, seed: int = 1) -> dict[str, Any]:
    """Half of the time for each. {"frames": {...}, "rest": {...}, "runs", "crashes", "accepted_forgeries", "seed"}."""
    logging.disable(logging.CRITICAL)  # refusals are what is asked for; a log line for each would be most of the work
    try:
        parts = {"frames": frames.fuzz(seconds / 2, seed), "rest": rest.fuzz(seconds / 2, seed)}
    finally:
        logging.disable(logging.NOTSET)
    sums = {name: sum(part[name] for part in parts.values()) for name in ("runs", "forgeries", "crashes", "accepted_forgeries")}
    return {"seconds": seconds, "seed": seed, **sums, **parts}
