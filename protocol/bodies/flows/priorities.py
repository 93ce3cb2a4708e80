"""The bodies of SIZE_REPORT, THRESHOLDS and PATHS, with their layouts, and making reports from counted flow sizes. Pure.

A report's rows stay as they are on the wire, so that the coordinator's side adds up thousands of reports without decoding them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from protocol.bodies.flows.size_bins import BINS, TYPES
from protocol.bodies.vocabulary import Paths, SizeReport, Thresholds
from protocol.wire import BODY_MAX, Layout, check_page

SIZE_REPORT = Layout(version="I", period_ns="Q")
SIZE_ROW = Layout(type="B", bin="B", flows="I", bytes="Q")
THRESHOLDS = Layout(version="I", period_ns="Q", bands="B", termination="B")
THRESHOLD_ROW = Layout(beta="Q", alpha="Q")
THRESHOLDS_REQUEST = Layout(version="I")
PATHS = Layout(version="Q", page="H", pages="H", rate_bps="Q", marking_bytes="I")
PATH = Layout(destination="I", rate_bps="Q", marking_bytes="I")

ROWS_MAX = (BODY_MAX - SIZE_REPORT.size) // SIZE_ROW.size
BANDS_MAX = 7
"""A switch has eight queues, and queue 0 is for type 1."""
TERMINATIONS = (1, 2, 3)


class SizeCount(NamedTuple):
    """The number of flows of a type and bin that ended, and their bytes."""

    type: int
    bin: int
    flows: int
    bytes: int


def size_reports(version: int, period_ns: int, counts: Iterable[SizeCount]) -> list[SizeReport]:
    """A period's counts as SizeReports, the first of which holds the period. Raises ValueError naming a field."""
    rows = [SIZE_ROW.pack("SizeReport.rows", *count) for count in counts]
    parts = [b"".join(rows[at : at + ROWS_MAX]) for at in range(0, len(rows), ROWS_MAX)] or [b""]
    return [SizeReport(version, 0 if at else period_ns, part) for at, part in enumerate(parts)]


def pack_size_report(message: SizeReport) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    _check_rows(message.rows)
    return SIZE_REPORT.pack("SizeReport", message.version, message.period_ns) + message.rows


def unpack_size_report(body: bytes) -> SizeReport:
    """Raises ValueError or struct.error: not such a body."""
    version, period_ns = SIZE_REPORT.struct.unpack_from(body)
    rows = body[SIZE_REPORT.size :]
    _check_rows(rows)
    return SizeReport(version, period_ns, rows)


def _check_rows(rows: bytes) -> None:
    if len(rows) % SIZE_ROW.size:
        raise ValueError(f"SizeReport.rows: {len(rows)} bytes, must be rows of {SIZE_ROW.size}")
    types, bins = rows[:: SIZE_ROW.size], rows[1 :: SIZE_ROW.size]
    if rows and (min(types) < 1 or max(types) > TYPES):
        raise ValueError(f"SizeReport.rows: types {min(types)} to {max(types)}, must be from 1 to {TYPES}")
    if rows and max(bins) >= BINS:
        raise ValueError(f"SizeReport.rows: bin {max(bins)}, must be below {BINS}")


def pack_thresholds(message: Thresholds) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if len(message.beta) != len(message.alpha):
        raise ValueError(f"Thresholds.beta: {len(message.beta)} thresholds, but {len(message.alpha)} of alpha")
    head = THRESHOLDS.pack("Thresholds", *THRESHOLDS.values(message))
    _check_thresholds(message)
    return head + THRESHOLD_ROW.pack_rows("Thresholds", zip(message.beta, message.alpha, strict=True))


def unpack_thresholds(body: bytes) -> Thresholds:
    """Raises ValueError or struct.error: not such a body."""
    version, period_ns, bands, termination = THRESHOLDS.struct.unpack_from(body)
    rows = list(THRESHOLD_ROW.struct.iter_unpack(body[THRESHOLDS.size :]))
    beta, alpha = (tuple([row[at] for row in rows]) for at in (0, 1))
    message = Thresholds(version, period_ns, bands, termination, beta, alpha)
    _check_thresholds(message)
    return message


def _check_thresholds(message: Thresholds) -> None:
    if not 1 <= message.bands <= BANDS_MAX:
        raise ValueError(f"Thresholds.bands: {message.bands}, must be from 1 to {BANDS_MAX}")
    if message.termination not in TERMINATIONS:
        raise ValueError(f"Thresholds.termination: {message.termination}, must be 1, 2 or 3")
    for name, cuts in (("beta", message.beta), ("alpha", message.alpha)):
        if len(cuts) not in (0, message.bands - 1):
            raise ValueError(f"Thresholds.{name}: {len(cuts)} thresholds for {message.bands} bands, must be one fewer, or none")
        if _falls(cuts):
            raise ValueError(f"Thresholds.{name}: {cuts} falls; each is at least the one before")


def _falls(cuts: Sequence[int]) -> bool:
    return any(after < before for before, after in pairwise(cuts))


def pack_paths(message: Paths) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    head = PATHS.pack("Paths", *PATHS.values(message))
    _check_paths(message)
    return head + PATH.pack_rows("Paths.entries", message.entries)


def unpack_paths(body: bytes) -> Paths:
    """Raises ValueError or struct.error: not such a body."""
    version, page, pages, rate_bps, marking_bytes = PATHS.struct.unpack_from(body)
    entries = tuple(PATH.struct.iter_unpack(body[PATHS.size :]))
    message = Paths(version, page, pages, rate_bps, marking_bytes, entries)
    _check_paths(message)
    return message


def _check_paths(message: Paths) -> None:
    check_page("Paths", message.page, message.pages)
    if not message.rate_bps or not all(rate_bps for _, rate_bps, _ in message.entries):
        raise ValueError("Paths.rate_bps: 0, must be above 0")
