"""A member is silent by what the leader has read: not while its frames may wait at a leader that is behind."""

from __future__ import annotations

import pytest

from controller.members.membership import LOOKS
from tests.unit.controller.members.test_bounds import MS, Fabric


class Waiting(Fabric):
    """A leader with one member, that has read all frames which came until a time."""

    def __init__(self) -> None:
        super().__init__()
        self.join(1)
        self.silence_ns = self.leader.settings.silence_ns

    def members_after(self, heard_ago_ns: int, read_ago_ns: int | None = None) -> int:
        """How many members there are so long after it was heard; all frames until so long ago were read (None: until now)."""
        now_ns = self.now_ns + heard_ago_ns
        intake = self.leader.intake
        intake._woken, intake._all_read_ns = read_ago_ns is not None, now_ns - (read_ago_ns or 0)
        self.leader.membership._forget_silent(now_ns)
        return len(self.leader.members.present())


@pytest.mark.parametrize("read_ago_ns", [None, 0])
def test_who_is_not_heard_for_that_long_is_counted_out(read_ago_ns: int | None) -> None:
    fabric = Waiting()
    assert fabric.members_after(fabric.silence_ns - MS, read_ago_ns) == 1
    assert fabric.members_after(fabric.silence_ns + fabric.silence_ns // LOOKS + MS, read_ago_ns) == 0


def test_who_may_have_spoken_in_a_frame_that_waits_stays_a_member() -> None:
    fabric = Waiting()
    assert fabric.members_after(fabric.silence_ns + MS, read_ago_ns=20 * MS) == 1


def test_a_leader_that_is_always_behind_counts_out_who_is_silent_for_twice_that_long() -> None:
    fabric = Waiting()
    assert fabric.members_after(2 * fabric.silence_ns - MS, read_ago_ns=3 * fabric.silence_ns) == 1
    assert fabric.members_after(2 * fabric.silence_ns + fabric.silence_ns // LOOKS + MS, read_ago_ns=4 * fabric.silence_ns) == 0
