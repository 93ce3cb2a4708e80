"""What a directed link carries, and how that is known: the least of port speed, member's rate and fabric file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from topology.fabric import DirectedLink
from topology.pieces import PIECE, Pieces, finished

FABRIC_FILE = "fabric file"
MEMBER_RATE = "member's rate"
PORT_SPEED = "port speed"
ASSUMED = "assumed"
"""Nothing is known of the link: its switch does not tell the port's speed, and no file gives a rate."""


class Capacity(NamedTuple):
    """A capacity in bit/s, and the words for where it comes from."""

    bps: int
    source: str


def least(*known: Capacity) -> Capacity:
    """The least of what is known, of equals the first; what is only assumed counts where nothing else is known."""
    return min((one for one in known if one.source != ASSUMED), key=lambda one: one.bps, default=known[0])


def rows(capacities: Mapping[DirectedLink, Capacity]) -> list[dict[str, Any]]:
    """Capacities as documents hold them: [{"source", "target", "capacity_bps", "from"}, ...]."""
    return [row(link, known) for link, known in capacities.items()]


def row(link: DirectedLink, known: Capacity) -> dict[str, Any]:
    """One of them."""
    return {"source": link.source, "target": link.target, "capacity_bps": known.bps, "from": known.source}


def read_sources(found: Iterable[Mapping[str, Any]]) -> dict[DirectedLink, str]:
    """Where each capacity comes from, out of such rows."""
    return finished(reading_sources(found))


def reading_sources(found: Iterable[Mapping[str, Any]]) -> Pieces[dict[DirectedLink, str]]:
    """The same a piece at a time."""
    sources: dict[DirectedLink, str] = {}
    for at, one in enumerate(found, 1):
        sources[DirectedLink(one["source"], one["target"])] = str(one["from"])
        if not at % (4 * PIECE):
            yield
    return sources
