"""A host's copy of the leader's directory: whole ones and changes go in, nodes with their addresses come out. Pure."""

from __future__ import annotations

from agents.queues.classifier import Address
from agents.queues.queues import FIRST_NODE, LAST_NODE
from protocol.messages import Directory, DirectoryChange
from protocol.paging import Reassembler

DIRECTORY_ADDRESSES = 65_536
"""What the classifier holds (MAX_FLOWS in agents/bpf/classify.h)."""


class DirectoryCopy:
    """The nodes that there are, of those that a host's queues can have, with `DIRECTORY_ADDRESSES` addresses at most."""

    def __init__(self) -> None:
        self.version = -1
        """Of the leader's directory; -1: none has come."""
        self.entries: dict[int, tuple[Address, ...]] = {}
        self._pages: Reassembler[Directory] = Reassembler()

    def new_leader(self) -> None:
        """Another leader counts versions anew. The entries stay until it has sent its own."""
        self.version = -1
        self._pages.clear()

    def take(self, message: Directory) -> bool:
        """Takes a page; returns whether the directory is whole now. One that is older than ours came late, and is left out."""
        pages = self._pages.add(message)
        if pages is None or message.version < self.version:
            return False
        self.version = message.version
        self.entries = _cut({node: addresses for page in pages for node, addresses in page.entries})
        return True

    def change(self, message: DirectoryChange) -> bool:
        """Takes a change; returns whether it changed anything. One that begins after our version is left out."""
        if not message.base <= self.version < message.version:
            return False
        entries = dict(self.entries)
        for node, member, addresses in message.entries:
            if member:
                entries[node] = addresses
            else:
                entries.pop(node, None)
        self.version = message.version
        self.entries = _cut(entries)
        return True


def _cut(entries: dict[int, tuple[Address, ...]]) -> dict[int, tuple[Address, ...]]:
    room, found = DIRECTORY_ADDRESSES, dict[int, tuple[Address, ...]]()
    for node, addresses in entries.items():
        if FIRST_NODE <= node <= LAST_NODE:
            found[node] = addresses[:room]
            room -= len(found[node])
    return found
