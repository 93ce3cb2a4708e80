"""An agent's parts are asked and called when one of them has something to do, and not otherwise."""

from __future__ import annotations

import pytest

from agents.loop.part import Part
from agents.loop.parts import NEVER_NS, Parts
from protocol.messages import Heartbeat, Override, Ping, Pong
from protocol.timers import Mishaps

TOLD: list[str] = []


class Recorder(Part):
    """Counts what is called."""

    def __init__(self, due_ns: int | None = None) -> None:
        self.due_ns = due_ns
        self.handlers = {Pong: self._on_pong}
        self.descriptors = {7: self._on_readable}
        self.asked = 0
        self.advanced: list[int] = []
        self.heard: list[str] = []

    def next_due_ns(self) -> int | None:
        self.asked += 1
        return self.due_ns

    def advance(self, now_ns: int) -> None:
        self.advanced.append(now_ns)

    def _on_pong(self, _: Pong, __: int) -> None:
        self.heard.append("pong")
        self.due_ns = 40

    def _on_readable(self, _: int) -> None:
        self.heard.append("readable")
        self.due_ns = 30

    def close(self) -> None:
        self.heard.append("closed")


class Clock:
    """A time that the test sets."""

    now = 0

    def __call__(self) -> int:
        return self.now


def settled(*found: Recorder) -> tuple[Parts, Clock]:
    clock = Clock()
    parts = Parts(clock, Mishaps(TOLD.append, int, (OSError,)))
    for part in found:
        parts.add(part)
    parts.next_due_ns()
    return parts, clock


def test_nobody_is_asked_again_before_one_is_due() -> None:
    one, other = Recorder(100), Recorder(200)
    parts, _ = settled(one, other)
    for now in range(0, 100, 10):
        parts.advance(now)
        parts.handle(Heartbeat(Override.COORDINATE, 1, 1), now)
        parts.serve([3, 4])
        assert parts.next_due_ns() == 100
    assert (one.asked, other.asked, one.advanced) == (1, 1, [])


def test_when_one_is_due_all_do_what_is_due_and_are_asked_anew() -> None:
    one, other = Recorder(100), Recorder(200)
    parts, clock = settled(one, other)
    clock.now = 101
    parts.advance(100)
    assert one.advanced == other.advanced == [101]
    one.due_ns = None
    assert parts.next_due_ns() == 200


def test_a_message_or_a_descriptor_of_one_has_all_asked_anew() -> None:
    one = Recorder(100)
    parts, _ = settled(one)
    parts.handle(Pong(0, 0, 0), 5)
    assert parts.next_due_ns() == 40
    parts.serve([3, 7])
    assert parts.next_due_ns() == 30
    one.due_ns = 20
    parts.touch()
    parts.advance(10)
    assert parts.next_due_ns() == 20 and one.advanced == [0]


def test_a_type_that_several_handle_is_handled_by_all_and_others_by_none() -> None:
    one, other = Recorder(), Recorder()
    parts, _ = settled(one, other)
    parts.handle(Pong(0, 0, 0), 1)
    parts.handle(Ping(0), 1)
    assert one.heard == other.heard == ["pong"]


def test_without_parts_nothing_is_ever_due() -> None:
    assert Parts(Clock(), Mishaps(print, int)).next_due_ns() == NEVER_NS


def test_one_that_can_not_be_closed_keeps_no_other_open() -> None:
    class Stuck(Recorder):
        def close(self) -> None:
            super().close()
            raise OSError("it stays")

    first, stuck, last = Recorder(), Stuck(), Recorder()
    parts, _ = settled(first, stuck, last)
    with pytest.raises(OSError, match="it stays"):
        parts.close()
    assert first.heard == stuck.heard == last.heard == ["closed"]
    parts.close()
    assert stuck.heard == ["closed"]


def test_parts_that_are_closed_twice_hear_it_once() -> None:
    one = Recorder()
    parts, _ = settled(one)
    parts.close()
    parts.close()
    assert one.heard == ["closed"]


def test_every_part_is_told_of_a_new_leader_and_of_a_release_though_the_kernel_refuses_another_something() -> None:
    class Refused(Recorder):
        def new_leader(self, now_ns: int) -> None:
            raise OSError("refused")

        released = new_leader

    class Told(Recorder):
        def new_leader(self, now_ns: int) -> None:
            self.heard.append("new leader")

        def released(self, now_ns: int) -> None:
            self.heard.append("released")

    told = Told()
    parts, _ = settled(Refused(), told)
    for tell in (parts.released, parts.new_leader):
        with pytest.raises(OSError, match="refused"):
            tell(0)
    assert told.heard == ["released", "new leader"]
