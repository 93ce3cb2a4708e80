"""Whether the store's telemetry is what the coordinator writes: anyone with the store's password can write it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

COUNTS = ("regulated_bytes", "free_bytes", "dropped_events")
HISTOGRAMS = ("directive_latency", "waiting")


def check(document: Mapping[str, Any] | None) -> None:
    """Raises ValueError: a count is no number, or a histogram lacks a field or a bucket; the text names it."""
    document = document or {}
    for name in COUNTS:
        if not _is_number(document.get(name, 0)):
            raise ValueError(f"telemetry.{name} is no number")
    for name in HISTOGRAMS:
        if name in document:
            _check_histogram(f"telemetry.{name}", document[name])


def _check_histogram(name: str, histogram: Any) -> None:  # noqa: ANN401 -- whatever the store holds
    if not isinstance(histogram, Mapping):
        raise ValueError(f"{name} is no histogram")
    for field in ("bounds_us", "counts"):
        if not isinstance(values := histogram.get(field), list) or not all(map(_is_number, values)):
            raise ValueError(f"{name}.{field} is no list of numbers")
    if len(histogram["counts"]) != len(histogram["bounds_us"]) + 1:
        raise ValueError(f"{name}.counts needs one more than {name}.bounds_us")
    if not _is_number(histogram.get("sum_us")):
        raise ValueError(f"{name}.sum_us is no number")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
