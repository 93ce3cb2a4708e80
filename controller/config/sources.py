"""Where the spanning tree is read: the entries of `sources`, joined with those at the switches of a fabric file. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from controller.config.settings import TreeSource
from topology.sources import SwitchSource, has_form


def listed(text: object) -> TreeSource:
    """Reads an entry of `sources`. Raises ValueError."""
    kind, _, where = str(text).partition(":")
    if kind == "snmp":
        text = "snmp is not a source of several switches; write source, address and credentials at each in the fabric"
        raise ValueError(text)
    if kind not in ("openflow", "ovsdb", "bridge") or not has_form(kind, where):
        raise ValueError(f"{text!r} is not a source of the tree")
    return TreeSource(kind, where)


def joined(known: Iterable[TreeSource], switches: Iterable[SwitchSource], directory: Path) -> tuple[TreeSource, ...]:
    """All sources, each once: an OVSDB server answers for all its switches. Names of files count from `directory`."""
    sources = dict.fromkeys(known)
    for switch, kind, address, credentials in switches:
        if kind in ("openflow", "ovsdb"):
            sources[TreeSource(kind, address)] = None
        else:
            file = str((directory / credentials).absolute()) if credentials else ""
            sources[TreeSource(kind, address, switch, file)] = None
    return tuple(sources)
