"""Splits long full-state messages into pages that each fit a frame, and reassembles them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from protocol.bodies.directory import DIRECTORY, directory_entry
from protocol.bodies.flows.priorities import PATH, PATHS
from protocol.bodies.groups import GROUP_ROW, GROUPS, GroupsChange
from protocol.bodies.host_control import CONDITION, CONDITIONS, Conditions
from protocol.messages import (
    BACKLOG,
    BACKLOG_ENTRY,
    COFLOW_ENTRY,
    COFLOWS,
    DESTINATION,
    REGULATE,
    REPORT,
    REPORT_COUNTER,
    REPORT_ENTRY,
    Backlog,
    Coflows,
    Directory,
    Paths,
    Regulate,
    Report,
)
from protocol.wire import BODY_MAX

Paged = TypeVar("Paged", Directory, Regulate, Backlog, Report, Coflows, Paths, Conditions, GroupsChange)

MOST_PAGES, MOST_HELD = 256, 4096
"""Of a message that a member sends: more pages than every destination there can be takes; and of incomplete ones, together."""
PARTIAL_SETS = 2
"""How many incomplete messages are kept: the newest, and the one before it, whose last page may still be under way."""


def paginate(message: Paged) -> list[Paged]:
    """The message as pages, in order, each short enough for `encode`; a short message is a single page.

    Raises ValueError: the message is already one page of several, or one Directory entry alone is too long for a frame.
    """
    if message.pages != 1:
        raise ValueError(f"{type(message).__name__}.pages: {message.pages}, must be 1 before paging")
    parts: list[Paged]
    if isinstance(message, Directory):
        room = BODY_MAX - DIRECTORY.size
        groups = _groups(message.entries, lambda entry: len(directory_entry(*entry)), room)
        parts = [replace(message, entries=group) for group in groups]
    elif isinstance(message, Regulate):
        groups = _groups(message.destinations, lambda _: DESTINATION.size, BODY_MAX - REGULATE.size)
        parts = [replace(message, destinations=group) for group in groups]
    elif isinstance(message, Backlog):
        groups = _groups(message.entries, lambda _: BACKLOG_ENTRY.size, BODY_MAX - BACKLOG.size)
        parts = [replace(message, entries=group) for group in groups]
    elif isinstance(message, Coflows):
        groups = _groups(message.entries, lambda _: COFLOW_ENTRY.size, BODY_MAX - COFLOWS.size)
        parts = [replace(message, entries=group) for group in groups]
    elif isinstance(message, Paths):
        groups = _groups(message.entries, lambda _: PATH.size, BODY_MAX - PATHS.size)
        parts = [replace(message, entries=group) for group in groups]
    elif isinstance(message, Conditions):
        groups = _groups(message.entries, lambda _: CONDITION.size, BODY_MAX - CONDITIONS.size)
        parts = [replace(message, entries=group) for group in groups]
    elif isinstance(message, GroupsChange):
        groups = _groups(message.rows, lambda _: GROUP_ROW.size, BODY_MAX - GROUPS.size)
        parts = [replace(message, rows=group) for group in groups]
    else:
        parts = _report_parts(message)
    return [replace(part, page=page, pages=len(parts)) for page, part in enumerate(parts)]


def _report_parts(message: Report) -> list[Report]:
    """Entries first, then counters; a page may end with the former and begin the latter."""
    rows = [(entry, None) for entry in message.entries] + [(None, counter) for counter in message.counters]
    sizes = (REPORT_COUNTER.size, REPORT_ENTRY.size)
    groups = _groups(rows, lambda row: sizes[row[0] is not None], BODY_MAX - REPORT.size)
    return [
        replace(
            message,
            entries=tuple(entry for entry, _ in group if entry is not None),
            counters=tuple(counter for _, counter in group if counter is not None),
        )
        for group in groups
    ]


def _groups(rows: Sequence[Any], size: Callable[[Any], int], room: int) -> list[tuple[Any, ...]]:
    """Groups consecutive rows into as few groups as possible, each of at most `room` bytes; without rows, one empty group."""
    groups: list[list[Any]] = [[]]
    left = room
    for row in rows:
        need = size(row)
        if need > room:
            raise ValueError(f"entry {row!r:.80}: {need} bytes, at most {room} fit in a page")
        if need > left:
            groups.append([])
            left = room
        groups[-1].append(row)
        left -= need
    return [tuple(group) for group in groups]


class Reassembler(Generic[Paged]):
    """Collects the pages of one kind of message from one sender. They may arrive in any order, and mixed with those of another
    message.

    A message that lost a page is dropped when later ones arrive, since each holds the full state.
    """

    def __init__(self) -> None:
        self._sets: dict[int | tuple[int, int], dict[int, Paged]] = {}

    def add(self, message: Paged) -> tuple[Paged, ...] | None:
        """Adds a page; returns all pages in order if it was the last one missing, else None."""
        number: int | tuple[int, int] = message.report if isinstance(message, Backlog | Report) else message.version
        if isinstance(message, GroupsChange):
            number = message.base, message.version
        held = self._sets.get(number)
        if held is None or next(iter(held.values())).pages != message.pages:
            self._sets.pop(number, None)
            if len(self._sets) >= PARTIAL_SETS:
                del self._sets[next(iter(self._sets))]
            held = self._sets[number] = {}
        held[message.page] = message
        if len(held) < message.pages:
            return None
        del self._sets[number]
        return tuple(held[page] for page in range(message.pages))

    @property
    def held(self) -> int:
        """How many pages wait for others."""
        return sum(map(len, self._sets.values()))

    def clear(self) -> None:
        """Drops incomplete messages, when the sender restarts its numbers (a new leader, a restarted agent)."""
        self._sets.clear()


class Reassemblers(Generic[Paged]):
    """Collects the pages of one kind of message from many senders, in bounded memory: when more than `MOST_HELD` pages wait for
    others, it drops those of the sender that began first."""

    def __init__(self) -> None:
        self.dropped = 0
        """How many pages were not kept: of messages that are too long, or to make room."""
        self._senders: dict[int, Reassembler[Paged]] = {}
        self._held = 0

    def add(self, sender: int, message: Paged) -> tuple[Paged, ...] | None:
        """As `Reassembler.add`, for one sender."""
        pages = self._senders.get(sender)
        if pages is None:
            if message.pages == 1:
                return (message,)
            pages = Reassembler()
        if message.pages > MOST_PAGES:
            self.dropped += 1
            return None
        before = pages.held
        whole = pages.add(message)
        self._held += pages.held - before
        if pages.held:
            self._senders[sender] = pages
        else:
            self._senders.pop(sender, None)
        while self._held > MOST_HELD:
            self.dropped += self._senders[first := next(iter(self._senders))].held
            self.clear(first)
        return whole

    def clear(self, sender: int) -> None:
        """Drops the incomplete messages of a sender that begins anew, or is gone."""
        if (pages := self._senders.pop(sender, None)) is not None:
            self._held -= pages.held
