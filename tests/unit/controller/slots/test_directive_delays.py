"""How long directives take: smoothed for each member, told where it matters, and bounded whatever a host says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controller.slots.directive_delays import DELAY_STEP_NS, MAX_DELAY_NS, DirectiveDelays

MS = 1_000_000


def member(node: int) -> Any:  # noqa: ANN401 -- what `took` reads of a member
    return SimpleNamespace(node=node, figures=SimpleNamespace(delay_ns=0, told_ns=-1))


class TestDelays:
    """What the policy hears."""

    def setup_method(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.delays = DirectiveDelays(lambda node, delay_ns: self.told.append((node, delay_ns)))

    def test_the_first_delay_is_told_as_it_is_and_noise_is_not(self) -> None:
        h1 = member(16)
        self.delays.took(h1, MS)
        self.delays.took(h1, MS + DELAY_STEP_NS)
        assert self.told == [(16, MS)]

    def test_a_host_that_says_more_than_20_ms_counts_as_20(self) -> None:
        self.delays.took(member(16), 10**15)
        assert self.told == [(16, MAX_DELAY_NS)] and self.delays.longest_ns == MAX_DELAY_NS == 20 * MS

    def test_a_delay_below_nothing_is_none(self) -> None:
        self.delays.took(member(16), -5)
        assert self.told == [(16, 0)]

    def test_the_longest_is_that_of_the_members_that_are_left(self) -> None:
        for node, delay_ns in ((16, 3 * MS), (17, MS)):
            self.delays.took(member(node), delay_ns)
        assert self.delays.longest_ns == 3 * MS
        self.delays.forget(16)
        assert self.delays.longest_ns == MS

    def test_a_fresh_policy_is_told_all(self) -> None:
        for node in (16, 17):
            self.delays.took(member(node), node * MS // 10)
        self.told.clear()
        self.delays.tell_again()
        assert self.told == [(16, 16 * MS // 10), (17, 17 * MS // 10)]
