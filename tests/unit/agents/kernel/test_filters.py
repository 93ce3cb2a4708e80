"""Which filters of others before Baton's may end the chain, as the kernel's dump tells."""

from __future__ import annotations

import dataclasses
import struct

import pytest

from agents.kernel.filters import Before, before_ours
from agents.kernel.netlink import Entry, attribute
from agents.kernel.snapshot import CLASSIFIER_PREFERENCE, TAGGER_PREFERENCE

CONTINUE, OK, PIPE = -1, 0, 3
MATCHALL_ACT, U32_SEL, U32_DIVISOR = 2, 5, 4


def rule(preference: int, kind: str, options: bytes) -> Entry:
    return Entry(1, 0, preference << 16, kind, options, 0, 0, 0)


def actions(*those: tuple[str, int, int]) -> bytes:
    """The actions of a matchall: kind, attribute of the parameters, and what follows."""
    made = (
        attribute(1, kind.encode() + b"\0") + attribute(2, attribute(place, struct.pack("=IIiII", 1, 0, control, 1, 1)))
        for kind, place, control in those
    )
    return attribute(MATCHALL_ACT, b"".join(attribute(number, one) for number, one in enumerate(made, 1)))


@pytest.mark.parametrize(
    ("those", "ends"),
    [
        ([("mirred", 2, PIPE)], True),
        ([("mirred", 2, CONTINUE)], False),
        ([("mirred", 2, PIPE), ("gact", 2, CONTINUE)], False),
        ([("mirred", 2, PIPE), ("gact", 2, OK)], True),
        ([("gact", 2, OK), ("gact", 2, CONTINUE)], True),
        ([("csum", 1, CONTINUE)], False),
        ([("police", 1, CONTINUE)], True),
        ([], True),
    ],
)
def test_a_rule_goes_on_where_its_actions_end_with_continue_and_may_end_elsewhere(
    those: list[tuple[str, int, int]], ends: bool
) -> None:
    assert before_ours([rule(10, "matchall", actions(*those))]) == Before((10,), (10,) * ends)


def test_one_rule_that_ends_is_enough_and_an_unknown_kind_may_end() -> None:
    goes_on, pipes = actions(("gact", 2, CONTINUE)), actions(("mirred", 2, PIPE))
    found = [rule(10, "matchall", goes_on), rule(10, "matchall", pipes), rule(9, "cgroup", goes_on)]
    assert before_ours([*found, rule(8, "matchall", goes_on)]) == Before((8, 9, 10), (9, 10))


def test_what_is_no_rule_or_batons_or_comes_after_it_does_not_count() -> None:
    table = attribute(U32_DIVISOR, struct.pack("I", 1))
    ours = [rule(preference, "bpf", actions()) for preference in (TAGGER_PREFERENCE, CLASSIFIER_PREFERENCE)]
    assert before_ours([rule(10, "matchall", b""), rule(10, "u32", table), *ours, rule(47812, "bpf", actions())]) == Before()


def test_a_filter_of_another_chain_stands_in_nobodys_way() -> None:
    elsewhere = dataclasses.replace(rule(10, "matchall", actions(("gact", 2, OK))), chain=7)
    assert before_ours([elsewhere]) == Before()
