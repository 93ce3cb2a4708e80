"""Which links coflows' flows need, and what each carries. Pure.

A host's link, each way, and the links between switches in between: those of a tree carry less than the hosts behind them can
send. The papers' fabric is one big switch, whose ports are the hosts' links (`BigSwitch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from controller.coflows.coflow import Flow
from topology.fabric import DirectedLink

Port = tuple[str, ...]
"""("out", host), ("in", host), or ("between", switch, switch)."""
MOST_WAYS = 100_000
FLOWS_AT_ONCE = 64
"""Whose ways are looked at in one go, some 10 us each."""


class Ways(Protocol):
    """The fabric."""

    def host_bps(self, host: str) -> int:
        """The rate of a host's link."""

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        """The links between switches from one host to another; none where that is not known."""

    def link_bps(self, link: DirectedLink) -> int:
        """What one of these carries."""


class BigSwitch:
    """A fabric that never is a bottleneck. `host_bps`: the rate of a host's link."""

    def __init__(self, host_bps: Callable[[str], int]) -> None:
        self.host_bps = host_bps

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        return ()

    def link_bps(self, link: DirectedLink) -> int:
        raise KeyError(link)


class Links:
    """What flows need of a fabric. The ways are kept until `reroute`."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._ports: dict[tuple[str, str], tuple[Port, ...]] = {}

    def reroute(self) -> None:
        """Ways may be others now."""
        self._ports.clear()

    def ports(self, source: str, destination: str) -> tuple[Port, ...]:
        """The ports on the way from one host to another."""
        found = self._ports.get((source, destination))
        if found is None:
            inner = (("between", *link) for link in self._ways.inner_links(source, destination))
            found = ("out", source), ("in", destination), *inner
            if len(self._ports) >= MOST_WAYS:
                self._ports.clear()
            self._ports[source, destination] = found
        return found

    def demand(self, flows: Iterable[Flow]) -> dict[Port, float]:
        """The bytes that flows send through each port."""
        found: dict[Port, float] = {}
        for source, destination, size in flows:
            for port in self.ports(source, destination):
                found[port] = found.get(port, 0.0) + size
        return found

    def rate_bps(self, port: Port) -> int:
        """What a port carries."""
        return self._ways.host_bps(port[1]) if len(port) == 2 else self._ways.link_bps(DirectedLink(*port[1:]))


def named(port: Port) -> str:
    """A port in a sentence."""
    if len(port) == 2:
        return f"the link {'to' if port[0] == 'in' else 'from'} {port[1]}"
    return f"the link from {port[1]} to {port[2]}"
