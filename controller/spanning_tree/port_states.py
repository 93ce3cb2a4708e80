"""What a source of the tree says of a switch's ports, and the error when it says nothing. Pure."""

from __future__ import annotations

from typing import NamedTuple


class TreeSourceError(RuntimeError):
    """A source of the tree could not be read; one line that names the source and the remedy."""


class Neighbour(NamedTuple):
    """Who LLDP says is at the other end of a port: the name that system gives itself, and its port (IEEE 802.1AB)."""

    system: str
    port: str


class PortState(NamedTuple):
    """Whether a switch's port forwards; where it is told, what the port is joined to."""

    switch: str
    port: str
    forwarding: bool
    neighbour: Neighbour | None = None
