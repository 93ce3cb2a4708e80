"""What guests and operators ask of a host's agent about marks: JSON objects, one to a datagram. Pure.

protocol/PROTOCOL.md has the fields ("Marks of guests' flows").
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any

from agents.guests.flows import parse_end
from agents.queues.classifier import Address
from protocol.flowmark import FlowMark
from protocol.units import MILLISECOND_NS, SECOND_NS

PORT = 6652
"""The UDP port at which an agent hears its guests."""
REQUEST_MAX = 1024
"""Bytes of a request; a longer one is refused."""
USUAL_FOR_MS = 10_000
MOST_FOR_MS = 3_600_000
FIELDS = frozenset({"do", "from", "to", "deadline_ms", "size_bytes", "for_ms", "cookie"})


@unique
class Cause(StrEnum):
    """Why a request was refused."""

    MALFORMED = "malformed"
    """The text names the field."""
    FOREIGN = "foreign"
    """A guest spoke for an address that is not the sender's."""
    UNKNOWN = "unknown"
    """The sender is no guest behind this host's bridge, as far as the kernel's tables say now."""
    RATE = "rate"
    """Too many requests came by the guest's port of the bridge."""
    FULL = "full"
    """The guest has as many marks as it may, or the table is full."""
    HELD = "held"
    """The operator has marked these flows: a guest may not change that."""
    ABSENT = "absent"
    """There is no such mark."""
    LINK = "link"
    """The host's link cannot carry the size before the deadline."""


class RequestRefused(ValueError):
    """A request was refused; the text says why, and what to do."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@unique
class Verb(StrEnum):
    """What a request is for."""

    MARK = "mark"
    UNMARK = "unmark"
    STATUS = "status"


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `source` is None if it named no address, and `target` only if it asks for the status."""

    verb: Verb
    source: Address | None = None
    source_port: int = 0
    target: Address | None = None
    target_port: int = 0
    mark: FlowMark = field(default_factory=FlowMark)
    for_ns: int = USUAL_FOR_MS * MILLISECOND_NS


def load(data: bytes) -> dict[str, Any]:
    """The fields of a datagram, not checked yet.

    Raises:
        RequestRefused: it has none; the text is short, because nobody knows yet who speaks.
    """
    if len(data) > REQUEST_MAX:
        raise RequestRefused(Cause.MALFORMED, f"request: above {REQUEST_MAX} bytes")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise RequestRefused(Cause.MALFORMED, "request: no JSON object")
    return fields


def parse(fields: dict[str, Any]) -> Request:
    """Reads the fields of a request.

    Raises:
        RequestRefused: it is none; the text begins with the name of the field that is wrong.
    """
    try:
        return _parsed(fields)
    except ValueError as error:
        raise RequestRefused(Cause.MALFORMED, str(error)) from None


def _parsed(fields: dict[str, Any]) -> Request:
    if unknown := sorted(fields.keys() - FIELDS):
        raise ValueError(f"{unknown[0][:40]}: no such field; there are {', '.join(sorted(FIELDS))}")
    try:
        verb = Verb(fields.get("do", "mark"))
    except ValueError:
        raise ValueError(f"do: it is none of {', '.join(Verb)}") from None
    source, source_port = parse_end("from", fields["from"]) if "from" in fields else (None, 0)
    if verb is Verb.STATUS:
        return Request(verb, source, source_port)
    if "to" not in fields:
        raise ValueError("to: missing; say where the flows go, such as 10.0.0.9:5432")
    target, target_port = parse_end("to", fields["to"])
    if source is not None and source.version != target.version:
        raise ValueError(f"to: {target} is of IPv{target.version}, and from is of IPv{source.version}")
    request = Request(verb, source, source_port, target, target_port)
    return request if verb is Verb.UNMARK else _marking(request, fields)


def _marking(request: Request, fields: dict[str, Any]) -> Request:
    mark = FlowMark(fields.get("size_bytes"), fields.get("deadline_ms"))
    if mark.flow_type == 3:
        raise ValueError("deadline_ms: missing, and size_bytes, too; say at least one of them")
    for_ms = fields.get("for_ms", USUAL_FOR_MS)
    if isinstance(for_ms, bool) or not isinstance(for_ms, int) or not 1 <= for_ms <= MOST_FOR_MS:
        raise ValueError(f"for_ms: it is a whole number from 1 to {MOST_FOR_MS}; mark the flows again before it is over")
    return Request(
        request.verb, request.source, request.source_port, request.target, request.target_port,
        mark, for_ms * MILLISECOND_NS,
    )  # fmt: skip


def check_link(mark: FlowMark, link_bps: int) -> None:
    """Checks that a link of this rate (bit/s; 0: not known) can carry the mark's size before its deadline.

    Raises:
        RequestRefused: it cannot.
    """
    if not (link_bps and mark.deadline_ms and mark.size_bytes):
        return
    needed_bps = mark.size_bytes * 8 * SECOND_NS // (mark.deadline_ms * MILLISECOND_NS)
    if needed_bps > link_bps:
        raise RequestRefused(
            Cause.LINK,
            f"deadline_ms: {mark.size_bytes} bytes in {mark.deadline_ms} ms are {needed_bps / 1e6:,.0f} Mb/s, "
            f"and the host's link has {link_bps / 1e6:,.0f}; leave the deadline out, or name a later one",
        )


def encode(fields: dict[str, Any]) -> bytes:
    """An answer, or a request, as it is sent."""
    return json.dumps(fields, separators=(",", ":")).encode()
