"""Where the tree is read: what `sources` lists, joined with what a fabric file says at its switches. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from controller.config.settings import TreeSource
from topology.sources import SwitchSource


def listed(text: object) -> TreeSource:
    """An entry of `sources`. Raises ValueError."""
    kind, _, where = str(text).partition(":")
    if kind == "snmp":
        text = "snmp is not a source of several switches; write source, address and credentials at each in the fabric"
        raise ValueError(text)
    if kind not in ("openflow", "ovsdb", "bridge") or (kind == "openflow") == bool(where):
        raise ValueError(f"{text!r} is not a source of the tree")
    return TreeSource(kind, where)


def joined(known: Iterable[TreeSource], switches: Iterable[SwitchSource], directory: Path) -> tuple[TreeSource, ...]:
    """All sources, each once: an OVSDB server tells of all its switches. Names of files are taken from `directory`."""
    sources = dict.fromkeys(known)
    for switch, kind, address, credentials in switches:
        if kind in ("openflow", "ovsdb"):
            sources[TreeSource(kind, address)] = None
        else:
            file = str((directory / credentials).absolute()) if credentials else ""
            sources[TreeSource(kind, address, switch, file)] = None
    return tuple(sources)
