"""The record of an experiment, as `--json` writes it, with its raw rows beside it. An edge: clock, files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from emulation.files import can_be_replaced, write_whole

Tell = Callable[[str, float], None]
"""A progress callback: gets the name of the current step, and the share of the experiment that is done."""


class Experiment(NamedTuple):
    """`record` is what --json writes; `raw` are the rows beside it, one JSON object a line."""

    record: dict[str, Any]
    raw: list[dict[str, Any]]


def record_of(
    title: str,
    published: Mapping[str, Any],
    runs: Sequence[dict[str, Any]],
    *,
    scale: str,
    seed: int,
    quick: bool,
    confidence: dict[str, Any],
    environment: Mapping[str, Any],
) -> dict[str, Any]:
    """A record without its figures: title, published values, scale, confidence, runs, environment."""
    return {
        "title": title,
        "published": dict(published),
        "scale": scale,
        "seed": seed,
        "quick": quick,
        "confidence": confidence,
        "runs": list(runs),
        "environment": {**environment, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
    }


def write(found: Experiment, path: Path) -> list[Path]:
    """Writes the record, and its raw rows beside it, both whole or not at all; the paths. A pipe or a device has nothing beside
    it, and gets the record alone."""
    rows = path.with_name(f"{path.name.removesuffix('.json')}.raw.jsonl") if can_be_replaced(path) else None
    lines = "".join(f"{json.dumps(row)}\n" for row in found.raw)
    text = json.dumps({**found.record, **({"raw": rows.name} if rows else {})}, indent=1)
    if rows:
        write_whole(rows, lines)
    write_whole(path, f"{text}\n")
    return [path, rows] if rows else [path]
