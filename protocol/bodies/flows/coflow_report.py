"""The body of COFLOW_REPORT: what a host has sent for coflows, by destination. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.wire import BODY_MAX, Layout

COFLOW_SENT = Layout(coflow="I", destination="I", bytes="Q")
COFLOWS_SENT_MAX = BODY_MAX // COFLOW_SENT.size


@dataclass(frozen=True, slots=True)
class CoflowReport:
    """Member to leader: (coflow, destination, bytes) of payload that the host has sent since its tagger began.

    `destination` is a node id, 0 for an address of no node.
    """

    entries: tuple[tuple[int, int, int], ...]


def coflow_reports(entries: Iterable[tuple[int, int, int]]) -> list[CoflowReport]:
    """The entries as messages that each fit a frame."""
    rows = tuple(entries)
    return [CoflowReport(rows[at : at + COFLOWS_SENT_MAX]) for at in range(0, len(rows), COFLOWS_SENT_MAX)]


def pack_coflow_report(message: CoflowReport) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    if len(message.entries) > COFLOWS_SENT_MAX:
        raise ValueError(f"CoflowReport.entries: {len(message.entries)}, at most {COFLOWS_SENT_MAX}")
    return COFLOW_SENT.pack_rows("CoflowReport.entries", message.entries)


def unpack_coflow_report(body: bytes) -> CoflowReport:
    """Raises ValueError or struct.error: not such a body."""
    return CoflowReport(tuple(COFLOW_SENT.struct.iter_unpack(body)))
