"""What members said in a batch, kept for the dashboard and for who concludes from it, in the order of time. Pure.

A batch may last for milliseconds: a slot that opened in it counts after a backlog from before that, and before what is said of
it or of later slots.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from controller.frames.frames import Batch
from controller.members.registry import Members
from controller.scheduling.telemetry import Telemetry

MOST_BACKLOGS = 256
"""Of so many backlogs of a batch it is noted since when bytes wait."""
LAST_SLOT = 1 << 64
"""No slot has a greater number."""
Opened: TypeAlias = dict[int, deque[tuple[int, int, bool]]]
"""By node, in order: the slots that opened, when (ns), and whether that was late."""


def note(batch: Batch, opened: Opened, members: Members, telemetry: Telemetry) -> None:
    """Keeps what waits at members, and tells telemetry. Empties `opened`."""
    for (slot, node, destination, unspent, size), watched, then_ns in zip(
        batch.yields.tolist(), batch.watched.tolist(), batch.yielded_ns, strict=True
    ):
        if (member := members.get(node)) is None:
            continue
        _note_opened(opened, node, telemetry, slot)
        if watched:
            telemetry.yielded(slot, (node, destination), unspent, size, then_ns)
        if size and members.get(destination) is not None:
            member.backlog[destination] = size
        else:
            member.backlog.pop(destination, None)
    destinations, sizes, offsets = batch.destinations.tolist(), batch.sizes.tolist(), batch.offsets.tolist()
    for number, (node, then_ns) in enumerate(zip(batch.nodes.tolist(), batch.backlog_ns, strict=True)):
        if (member := members.get(node)) is None:
            continue
        _note_opened(opened, node, telemetry, 0, then_ns)
        its = slice(offsets[number], offsets[number + 1])
        member.backlog = dict(zip(destinations[its], sizes[its], strict=True))
        if number < MOST_BACKLOGS:
            telemetry.backlog(node, member.backlog, then_ns)
        else:
            telemetry.leave_waiting(node)
    for node in opened:
        _note_opened(opened, node, telemetry, LAST_SLOT)


def _note_opened(opened: Opened, node: int, telemetry: Telemetry, last_slot: int, until_ns: int = 0) -> None:
    """Tells when the next slots of a member opened: those up to this one, and those before this time."""
    its = opened.get(node)
    while its and (its[0][0] <= last_slot or its[0][1] < until_ns):
        slot, opened_ns, late = its.popleft()
        telemetry.opened(slot, opened_ns, late=late)
