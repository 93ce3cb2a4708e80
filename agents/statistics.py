"""What an agent measured of itself, as JSON for benchmarks. An edge: writes a file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from agents.host_control.weekly import WeeklyCounters
from agents.permission.gatekeeper import Counters


def write_statistics(path: Path, counters: Counters, weekly: WeeklyCounters) -> None:
    """Writes counts and the newest latency samples (ns) to `path`, whole or not at all; those of weeks under "weekly"."""
    record = {name: getattr(counters, name) for name in Counters.__slots__}
    record["weekly"] = dataclasses.asdict(weekly)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(record))
    temporary.replace(path)
