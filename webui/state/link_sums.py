"""The loads of a large fabric's links: the busiest ones, the contended ones, and sums by group. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from webui.state import model
from webui.state.model import Picture

Link = tuple[str, str]


class Load(NamedTuple):
    """One direction of a link."""

    part: float
    """Of its capacity."""
    bps: int
    rate_bps: int
    drops: int


class LinkSums:
    """The loads at one moment."""

    def __init__(self, picture: Picture, ports: Mapping[str, Any] | None, contended: Iterable[Sequence[str]]) -> None:
        self._picture = picture
        self.contended = {(a, b) for a, b in contended}
        self._loads: dict[Link, Load] = {}
        for one in (ports or {}).get("links", ()):
            bps, rate_bps = one["load_bps"], one["rate_bps"]
            self._loads[one["source"], one["target"]] = Load(bps / max(1, rate_bps), bps, rate_bps, one["dropped"])
        self.counted = picture.forwarding <= self._loads.keys()
        """Whether the switches count every link of the tree; they count blocked links, too."""

    def report(self, flows: Iterable[Any]) -> None:
        """Has the links that no switch counts carry what hosts report."""
        rates, loads = self._picture.rates, dict.fromkeys(self._picture.forwarding - self._loads.keys(), 0)
        for flow in flows:
            for hop in self._picture.path(flow.source, flow.destination):
                if hop in loads:
                    loads[hop] += flow.rate_bps
        self._loads |= {link: Load(bps / max(1, rates[link]), bps, rates[link], 0) for link, bps in loads.items()}

    def __len__(self) -> int:
        return len(self._loads)

    def part(self, a: str, b: str) -> float:
        """The load of a direction as a part of its capacity; 0 where none is known."""
        found = self._loads.get((a, b))
        return 0.0 if found is None else found.part

    def named(self, links: Iterable[Link]) -> dict[str, Any]:
        """Those of these directions whose load is known, as in the document `state`."""
        found = {link: self._loads[link] for link in links if link in self._loads}
        return {
            f"{a}>{b}": model.load(one.bps, one.rate_bps, (a, b) in self.contended, one.drops)
            for (a, b), one in found.items()
        }

    def busiest(self, most: int) -> list[Link]:
        """The directions with the highest load."""
        return heapq.nlargest(most, self._loads, key=lambda link: self._loads[link].part)

    def by_group(self) -> tuple[dict[str, float], dict[str, int], dict[str, int]]:
        """By switch, over it and all below it: the highest load, the number of contended directions, the drops."""
        groups = self._picture.groups
        of, home = groups.of, groups.home
        most = dict.fromkeys(of, 0.0)
        contended, drops = dict.fromkeys(of, 0), dict.fromkeys(of, 0)
        for (a, b), load in self._loads.items():
            switch = home.get(a) or home.get(b) or self._lower(a, b)
            if switch in most:
                if load.part > most[switch]:
                    most[switch] = load.part
                if load.drops:
                    drops[switch] += load.drops
        for a, b in self.contended:
            switch = home.get(a) or home.get(b) or self._lower(a, b)
            if switch in contended:
                contended[switch] += 1
        for switch in groups.upwards:
            if above := of[switch].above:
                most[above] = max(most[above], most[switch])
        return most, groups.summed(contended), groups.summed(drops)

    def _lower(self, a: str, b: str) -> str:
        of = self._picture.groups.of
        return a if a in of and of[a].above == b else b
