"""The body of GUEST_MARKS: how many marks of guests' flows a host holds, and what became of the others. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.wire import Layout

GUEST_MARKS = Layout(held="I", marked="Q", expired="Q", removed="Q", refused="Q")


@dataclass(frozen=True, slots=True)
class GuestMarks:
    """Member to leader, every few seconds, from a host that hears guests.

    `held` marks are in force now. Since the agent's start flows were marked `marked` times; `expired` marks ended by
    themselves, `removed` were taken away, and `refused` requests were refused.
    """

    held: int
    marked: int
    expired: int
    removed: int
    refused: int
