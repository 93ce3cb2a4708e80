"""The bodies of GROUPS_CHANGE and GROUPS_REQUEST: who needs permission, by contended link and the members on its sides. Pure.

The fabric's tree falls into two when a link is cut. The members of one of the two are told as intervals of node ids; the others
of that part of the fabric are on the other side. So a message is as long as there are contended links, however many pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from protocol.wire import BODY_MAX, Layout, check_page

GROUPS = Layout(base="Q", version="Q", page="H", pages="H")
GROUP_ROW = Layout(link="I", part="H", way="B", first="I", last="I")
GROUPS_REQUEST = Layout(version="Q")
FIRST_VERSION = 3
"""Of the wire, that has these messages: a host or a leader of an older one is sent none."""
ROWS_MAX = (BODY_MAX - GROUPS.size) // GROUP_ROW.size


class Way(IntEnum):
    """What an interval of nodes is to a link."""

    NONE = 0
    """The link is not contended any more; the interval means nothing."""
    PART = 1
    """Of no link: the nodes of a part of the fabric that its tree joins."""
    BEFORE = 2
    """They send across the link, to all other nodes of the part."""
    BEHIND = 3
    """All other nodes of the part send across the link to them."""
    ALL = 4
    """All nodes of the part need permission for each other; the interval means nothing."""


class GroupRow(NamedTuple):
    """An interval of nodes. The rows of one link, and those of one part, belong together."""

    link: int
    """The leader's number of a directed link; 0 for the nodes of a part."""
    part: int
    way: Way
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class GroupsChange:
    """Leader to all, or to a member that asked: the links and parts that differ between two versions, in pages.

    Who has version `base`, or a later one, then has `version`. With `base` 0 it is the full state.
    """

    base: int
    version: int
    page: int
    pages: int
    rows: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True)
class GroupsRequest:
    """Member to leader: the version of the groups that it has; 0 for none."""

    version: int


def pack_groups(message: GroupsChange) -> bytes:
    """Raises ValueError naming the field that does not fit."""
    head = GROUPS.pack("GroupsChange", *GROUPS.values(message))
    _check(message.base, message.version, message.page, message.pages)
    for row in message.rows:
        _check_row(row)
    return head + GROUP_ROW.pack_rows("GroupsChange.rows", message.rows)


def unpack_groups(body: bytes) -> GroupsChange:
    """Raises ValueError or struct.error: not such a body."""
    base, version, page, pages = GROUPS.struct.unpack_from(body)
    _check(base, version, page, pages)
    rows: list[GroupRow] = []
    for link, part, way, first, last in GROUP_ROW.struct.iter_unpack(body[GROUPS.size :]):
        rows.append(row := GroupRow(link, part, Way(way), first, last))
        _check_row(row)
    return GroupsChange(base, version, page, pages, tuple(rows))


def _check(base: int, version: int, page: int, count: int) -> None:
    if base > version:
        raise ValueError(f"GroupsChange.base: {base} must not be above version, which is {version}")
    check_page("GroupsChange", page, count)


def _check_row(row: GroupRow) -> None:
    if row.first > row.last:
        raise ValueError(f"GroupRow.first: {row.first} must not be above last, which is {row.last}")
    if (row.way == Way.PART) != (row.link == 0):
        raise ValueError(f"GroupRow.link: {row.link} must be 0 for the nodes of a part, and for nothing else")
