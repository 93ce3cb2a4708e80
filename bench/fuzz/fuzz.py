"""Fuzzes control frames, REST, OpenFlow, LLDP and the election: how many inputs were tried, how many crashed something, how
many forgeries succeeded.

Methods: bench/fuzz/frames.py, bench/fuzz/rest.py, bench/fuzz/openflow.py, bench/fuzz/lldp.py, bench/fuzz/election.py. All are
seeded; a finding is recorded with its seed, run and input.
tests/fuzz/fuzz_decode.py fuzzes the frames' bytes by coverage, too.
"""

from __future__ import annotations

import logging
from typing import Any

from bench.fuzz import election, frames, lldp, openflow, rest

PARTS = (frames, rest, lldp, election)


def run(seconds: float = 60.0, seed: int = 1) -> dict[str, Any]:
    """Fuzzes each for a fifth of the time. {"frames": {...}, "rest": {...}, "openflow": {...}, "lldp": {...}, "election":
    {...}, "runs", "forgeries", "crashes", "accepted_forgeries", "seconds", "seed"}."""
    each_s = seconds / (1 + len(PARTS))
    try:
        parts = {"openflow": openflow.fuzz(each_s, seed)}  # before its parsers' logs are silenced: it counts them
        logging.disable(logging.CRITICAL)  # a log line for each refusal would take most of the time
        parts |= {part.__name__.rpartition(".")[2]: part.fuzz(each_s, seed) for part in PARTS}
    finally:
        logging.disable(logging.NOTSET)
    sums = {name: sum(part[name] for part in parts.values()) for name in ("runs", "forgeries", "crashes", "accepted_forgeries")}
    return {"seconds": seconds, "seed": seed, **sums, **parts}
