"""From the order of coflows to switch queues, of which there are few. Pure.

Two coflows that share no port of a host never wait for each other, so they may share a queue; a coflow has a queue below those
of all that are before it and share a port with it. The last queue takes all that are left.

A packet that waits in a lower queue is overtaken by those that its flow sends after it to a higher one. So a coflow stays where
it is while the order allows that, and all move up only when the queues below are used up.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

DEADLINE_QUEUE, FIRST_QUEUE, LAST_QUEUE = 0, 1, 7


class Placed(NamedTuple):
    """A coflow in the order: the ports that it uses (None: unknown, so maybe all), and whether it sends or may do so soon."""

    coflow: int
    ports: Collection[Hashable] | None
    busy: bool = True


def assign(order: Sequence[Placed], before: Mapping[int, int]) -> dict[int, int]:
    """The queue of every coflow, given the order and the queues that they had."""
    found = _layers(order, before)
    if (sharing := _sharing(found)) > 1:
        tight = _layers(order, {})
        if sharing > _sharing(tight) + 1:
            return tight
    return found


def _sharing(queues: Mapping[int, int]) -> int:
    return sum(queue == LAST_QUEUE for queue in queues.values())


def _layers(order: Sequence[Placed], before: Mapping[int, int]) -> dict[int, int]:
    lowest: dict[Hashable, int] = {}  # by port: of those so far that use it
    anywhere = deepest = FIRST_QUEUE - 1  # of those whose ports are unknown, and of all
    found = {}
    for coflow, ports, busy in order:
        above = deepest if ports is None else max(map(lowest.__getitem__, lowest.keys() & ports), default=anywhere)
        queue = min(max(above, anywhere) + 1, LAST_QUEUE)
        if (stay := before.get(coflow, 0)) > queue:
            queue = stay
        found[coflow] = queue
        if not busy:
            continue
        deepest = max(deepest, queue)
        if ports is None:
            anywhere = max(anywhere, queue)
        else:
            lowest.update(dict.fromkeys(ports, queue))  # at least as deep as what was there
    return found
