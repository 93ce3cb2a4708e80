"""Finds links that drop packets while they carry less than they are believed to. Pure: counters in, lines for the operator out.

A burst overruns a buffer now and then on any link; so a link is named when `READINGS` readings in a row have drops, once in an
episode, which ends when nothing was dropped for `QUIET_NS`.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.units import SECOND_NS
from topology.capacity import Capacity
from topology.fabric import DirectedLink
from topology.units import format_rate

READINGS = 3
BELOW = 0.9
"""The share of its capacity from which on a link may drop: it is full, but for bursts."""
QUIET_NS = 10 * SECOND_NS


@dataclass(slots=True)
class _Episode:
    last_drop_ns: int
    readings: int = 0
    most_bps: int = 0
    told: bool = False


class DropWatch:
    """The episodes of all links."""

    def __init__(self) -> None:
        self._episodes: dict[DirectedLink, _Episode] = {}

    def read(
        self, link: DirectedLink, carried_bps: int, dropped: int, believed: Capacity, port: str | None, now_ns: int
    ) -> str | None:
        """Takes what a link carried and how many packets it dropped since the reading before; returns a line when an episode
        has begun."""
        episode = self._episodes.get(link)
        if not dropped:
            if episode is not None:
                episode.readings = 0
                if now_ns - episode.last_drop_ns >= QUIET_NS:
                    del self._episodes[link]
            return None
        if episode is None:
            episode = self._episodes[link] = _Episode(now_ns)
        episode.last_drop_ns = now_ns
        if carried_bps >= BELOW * believed.bps:
            episode.readings = 0
            return None
        episode.readings += 1
        episode.most_bps = max(episode.most_bps, carried_bps)
        if episode.told or episode.readings < READINGS:
            return None
        episode.told = True
        where = f"port {port} of switch {link.source}" if port is not None else f"switch {link.source}"
        return (
            f"{where} drops packets towards {link.target} at {episode.most_bps / 1e6:.1f} Mbit/s, and is believed to carry"
            f" {format_rate(believed.bps)} ({believed.source}); give the link's rate in the fabric file"
        )
