"""The order in which the pairs that wait for a resource are served. Pure.

Least recently served first: a pair that was never served before all others; then the pair of the node served less recently;
then the one known longer. A pair with a deadline is in its resource's `urgent` line as well, which is tried before the
other, until it had two turns by that; then it waits for a slot in the order. So a host that calls all its bytes urgent gets
three turns while each other gets one.
Nothing searches a line for an entry: an entry that is out of date is dropped when it comes to the front.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from controller.policies.ledger import Entry, Resource
from controller.policies.pairs import Pair

URGENT, ORDINARY = 0, 1


def entry_of(pair: Pair) -> Entry[Pair]:
    """Its place within the class."""
    return pair.last, pair.host.last, pair.number, pair


def park(pair: Pair, resource: Resource[Pair]) -> None:
    """Puts a pair in the line of a resource: of one that is full for it, or of the one where new pairs wait."""
    pair.entry, pair.line, pair.hastened = entry_of(pair), resource, False
    _push(resource.waiting, pair)
    hasten(pair)


def hasten(pair: Pair) -> None:
    """Puts a waiting pair that is urgent in its resource's urgent line as well; its place in the other stays."""
    if pair.urgent and pair.entry is not None and pair.line is not None and not pair.hastened:
        pair.hastened = True
        _push(pair.line.urgent, pair)


def _push(lines: dict[int, list[Entry[Pair]]], pair: Pair) -> None:
    assert pair.entry is not None, "it has a place"
    need = pair.need_bps if pair.line in pair.links else 1
    heapq.heappush(lines.setdefault(need, []), pair.entry)


def lines(resource: Resource[Pair]) -> Iterator[tuple[int, int, list[Entry[Pair]]]]:
    """(class, amount that each of its pairs needs, heap) of every line of a resource."""
    for need, line in resource.urgent.items():
        yield URGENT, need, line
    for need, line in resource.waiting.items():
        yield ORDINARY, need, line


def line_of(resource: Resource[Pair], of: int, need: int) -> list[Entry[Pair]]:
    """The line of those of a class that need so much; nobody is in one that there is not."""
    return (resource.urgent if of == URGENT else resource.waiting).get(need, [])


def forget_line(resource: Resource[Pair], of: int, need: int) -> None:
    """Forgets a line in which nobody is: capacities change again and again, and what pairs need with them."""
    del (resource.urgent if of == URGENT else resource.waiting)[need]


def head(line: list[Entry[Pair]], of: int) -> Entry[Pair] | None:
    """The first entry of a line that is still valid there; None when there is none."""
    while line:
        entry = line[0]
        pair = entry[3]
        if pair.entry is entry:
            if not pair.wanted:
                pair.entry = None
            elif of == ORDINARY or pair.urgent:
                return entry
            else:
                pair.hastened = False
        heapq.heappop(line)
    return None
