"""The operator's conditions on their way from the store's document to the hosts."""

from __future__ import annotations

from typing import Any

import pytest

from controller.members.queue_conditions import QueueConditions
from controller.members.registry import Members
from protocol.bodies.host_control import FOREVER_NS, Conditions, QueueCondition
from protocol.messages import Message
from protocol.timers import REPEATS_NS, Timers

AHEAD = 1_000_000_000
"""The store's clock minus the coordinator's."""


class Bench:
    """A coordinator's part with two members, and what it sends to the first."""

    def __init__(self) -> None:
        self.members, self.timers = Members(), Timers()
        self.first, self.second = (
            self.members.register(bytes((2, 0, 0, 0, 0, at)), f"h{at}", 10**8, (), "TBF", "", 0) for at in (1, 2)
        )
        self.sent: list[Conditions] = []
        self.part = QueueConditions(self.members, self.timers, self._send)

    def _send(self, message: Message, to: bytes) -> None:
        assert isinstance(message, Conditions)
        if to == self.first.mac:
            self.sent.append(message)

    def take(self, hosts: dict[str, Any]) -> tuple[QueueCondition, ...] | None:
        """What h1 is told of a document; None: nothing."""
        self.sent.clear()
        self.part.take({"hosts": hosts, "ahead_ns": AHEAD}, 0)
        return self.sent[-1].entries if self.sent else None


def condition(number: int, begin: int | None = None, end: int | None = None, rate: int = 0) -> dict[str, Any]:
    return {"number": number, "from_ns": begin, "until_ns": end, "rate_bps": rate}


def test_times_become_those_of_the_leaders_clock_and_names_become_nodes() -> None:
    bench = Bench()
    told = bench.take({"h1": {"h2": [condition(1, AHEAD + 5, AHEAD + 9), condition(2, rate=7)], "3": [condition(1, 0, 0)]}})
    node = bench.second.node
    assert told == (QueueCondition(node, 1, 5, 9), QueueCondition(node, 2, 0, FOREVER_NS, 7), QueueCondition(3, 1, 0, 0))


def test_a_queue_without_conditions_is_paused_and_unknown_destinations_are_left_out() -> None:
    bench = Bench()
    assert bench.take({"h1": {"h2": [], "h9": []}}) == (QueueCondition(bench.second.node, 0, 0, 0),)


def test_a_destination_with_two_interfaces_has_the_condition_at_both() -> None:
    bench = Bench()
    other = bench.members.register(bytes((2, 0, 0, 0, 1, 2)), "h2", 10**8, (), "TBF", "", 0)
    nodes = bench.second.node, other.node
    assert bench.take({"h1": {"h2": []}}) == tuple(QueueCondition(node, 0, 0, 0) for node in nodes)
    told = bench.take({"h1": {"h2": [condition(1, rate=7)]}})
    assert told == tuple(QueueCondition(node, 1, 0, FOREVER_NS, 7) for node in nodes)


def test_who_has_none_is_told_nothing_and_who_has_none_any_more_is_told_so() -> None:
    bench = Bench()
    assert bench.take({"h2": {"h1": []}}) is None
    assert bench.take({"h1": {"h2": []}}) is not None
    assert bench.take({}) == ()


def test_a_change_has_a_new_version_and_is_told_again_soon_and_with_every_period() -> None:
    bench = Bench()
    bench.take({"h1": {"h2": []}})
    first = bench.sent[-1].version
    bench.timers.run(max(REPEATS_NS))
    assert len(bench.sent) == 1 + len(REPEATS_NS)
    bench.part.advance(10**9)
    assert {message.version for message in bench.sent} == {first}
    bench.take({"h1": {"h2": []}})
    assert bench.sent[-1].version > first


def test_a_member_that_joins_later_is_told_with_the_next_period() -> None:
    bench = Bench()
    bench.members.leave(bench.first.node)
    assert bench.take({"h1": {"h2": []}}) is None
    bench.members.register(bench.first.mac, "h1", 10**8, (), "TBF", "", 1)
    bench.part.advance(10**9)
    assert len(bench.sent) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 1}, {**condition(1), "from_ns": "noon"}, condition(1, AHEAD + 9, AHEAD + 5), condition(-1),
        condition(1, rate=2**64), [], None, 7,
    ],
)  # fmt: skip
def test_a_condition_that_makes_no_sense_is_told_once_and_left_out_by_itself(
    wrong: Any, caplog: pytest.LogCaptureFixture  # noqa: ANN401 -- whatever is in the store
) -> None:
    bench = Bench()
    node, good = bench.second.node, condition(2, rate=7)
    hosts = {"h0": {"h1": [wrong]}, "h1": {"3": [wrong], "h2": [wrong, good], "9" * 5000: []}, "h2": 5}
    for _ in range(2):
        assert bench.take(hosts) == (QueueCondition(node, 2, 0, FOREVER_NS, 7),), "a queue without any that is right is free"
    bench.part.advance(10**9)
    assert len(caplog.messages) == 4 and "queue h2 of h1" in caplog.text
    assert bench.take({"h1": {"h2": [good]}}) is not None
    bench.take(hosts)
    assert len(caplog.messages) == 8, "it was written anew"
