"""The state of a switch's port as a source of the tree reports it, and the error of a source. Pure."""

from __future__ import annotations

from typing import NamedTuple


class TreeSourceError(RuntimeError):
    """A source of the tree could not be read; one line that names the source and the remedy."""


class Neighbour(NamedTuple):
    """The system at the other end of a port by LLDP: the name that it gives itself, and its port (IEEE 802.1AB)."""

    system: str
    port: str


class PortState(NamedTuple):
    """Whether a switch's port forwards; and its neighbour, where the source reports it."""

    switch: str
    port: str
    forwarding: bool
    neighbour: Neighbour | None = None
