"""What the leader tells operators of the marks of hosts' guests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from controller.members.guest_marks import GuestCounts
from protocol.bodies.flows.guest_marks import GuestMarks


def test_a_member_shows_its_last_counts_until_it_leaves_and_others_show_none() -> None:
    part = GuestCounts()
    member = cast(Any, SimpleNamespace(node=16))
    for held in (1, 2):
        part.handlers[GuestMarks](member, GuestMarks(held, 9, 5, 1, 3), 0)
    told = {"held": 2, "marked": 9, "expired": 5, "removed": 1, "refused": 3}
    assert part.of_member(16) == {"guest_marks": told} and part.of_member(17) == {}
    part.left(16, 0)
    assert part.of_member(16) == {}
