"""A figure's pictures, in a light and a dark theme, from its record. An edge: files."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from bench.figures.catalogue import Entry
from bench.record import Experiment
from bench.style import THEMES, theme

MOST_SVG_BYTES = 400_000
"""A larger drawing becomes a PNG: a report stays small."""


def load(directory: Path) -> Experiment:
    """The record of a figure that was measured, and its raw rows.

    Raises OSError, ValueError: there is none, or it is no JSON object.
    """
    record = json.loads((directory / "record.json").read_text())
    if not isinstance(record, dict):
        raise ValueError(f"{directory / 'record.json'} holds no JSON object")
    rows = directory / "record.raw.jsonl"
    return Experiment(record, [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else [])


def draw(entry: Entry, directory: Path) -> None:
    """Draws a measured figure in each theme, into `picture-THEME-NAME.svg` (or .png) beside its record."""
    found = load(directory)
    for old in directory.glob("picture-*"):
        old.unlink()
    for name in THEMES:
        with theme(name):
            _draw(entry, found, directory / f"picture-{name}.svg")
    for drawn in sorted(directory.glob("picture-*.svg")):
        if drawn.stat().st_size > MOST_SVG_BYTES:
            drawn.unlink()
            with theme(drawn.stem.split("-")[1]):
                _draw(entry, found, drawn.with_suffix(".png"))


def pictures(directory: Path, name: str) -> list[Path]:
    """The pictures of a theme, in order."""
    return sorted(path for path in directory.glob(f"picture-{name}*") if path.suffix in (".svg", ".png"))


def _draw(entry: Entry, found: Experiment, path: Path) -> None:
    if entry.name == "demo":
        from emulation.measuring.figures import demo_figure

        rate_mbps = float(found.record["environment"]["rate_mbps"])
        demo_figure(found.record["runs"], path, rate_mbps=rate_mbps, caption=f"Five senders into one {rate_mbps:.0f} Mb/s port")
    elif entry.name == "host-control":
        from bench.host_control.plots import draw_delays

        draw_delays(found.record["runs"], path)
    else:
        drawing: Any = importlib.import_module(entry.module)
        drawing.draw(found, path)
