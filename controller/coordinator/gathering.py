"""Documents that the store bridge tells in parts, as the coordinator's parts take them: whole. Pure.

A line is {"parts": {"of": name, "put": parts, "gone": names, "more": whether the next line belongs to the same change}}. So a
change of a host comes as some hundred bytes, and what is large in lines of some kilobytes, each of them read in a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controller.members.part import Part
from controller.store.parts import Parts, difference, join

PIECE = 64
"""How many parts a line has at most: some 12 KB."""
UNUSED = {"fabric": ("hosts", "ports", "not_found"), "ports": ("ports",)}
"""Lists of each document that no part of the coordinator reads."""


def lines(name: str, old: Parts, new: Parts) -> Iterator[dict[str, Any]]:
    """The lines that tell a change of what the coordinator needs; at least one, for a reading of ports that are as they were is
    news."""
    pieces = list(difference(_needed(name, old), _needed(name, new)).pieces(PIECE))
    for at, piece in enumerate(pieces, 1):
        yield {"parts": {"of": name, "put": piece.put, "gone": piece.gone, "more": at < len(pieces)}}


def _needed(name: str, parts: Parts) -> Parts:
    unused = UNUSED[name]
    return {part: value for part, value in parts.items() if part.partition(" ")[0] not in unused}


class Gathered:
    """What has been told of each document."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, Any]] = {}
        self._unfinished: set[str] = set()
        """Documents of which a part of a change has been told."""

    def take(self, told: Mapping[str, Any]) -> str | None:
        """Takes what a line tells; returns the document's name when its change is complete."""
        name: str = told["of"]
        known = self._parts.setdefault(name, {})
        known.update(told["put"])
        for part in told["gone"]:
            known.pop(part, None)
        if told["more"]:
            self._unfinished.add(name)
            return None
        self._unfinished.discard(name)
        return name

    def document(self, name: str) -> dict[str, Any]:
        """The whole document."""
        return join(self._parts[name])

    def whole(self) -> Iterator[dict[str, Any]]:
        """A line for each document that tells all of it, as far as it has been told."""
        for name, parts in self._parts.items():
            yield {"parts": {"of": name, "put": dict(parts), "gone": (), "more": name in self._unfinished}}


class Gathering(Part):
    """Gives the coordinator's parts each document that was told in parts.

    Args:
        take: takes a line {name: document} for all parts, at a time (ns).
    """

    def __init__(self, take: Callable[[Mapping[str, Any], int], None]) -> None:
        self.documents = {"parts": self._on_parts}
        self._take = take
        self._gathered = Gathered()

    def _on_parts(self, told: Mapping[str, Any], now_ns: int) -> None:
        if (name := self._gathered.take(told)) is not None:
            self._take({name: self._gathered.document(name)}, now_ns)
