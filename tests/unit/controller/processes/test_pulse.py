"""controller/processes/pulse.py: who has beaten and stops is found still; nobody else is."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controller.processes.pulse import BEAT_NS, LOOK_NS, PULSE, STILL_NS, Listener, Pulse, pipe
from protocol.units import SECOND_NS

START_NS = 1000 * SECOND_NS


class Pair:
    """Both ends, looked at as a supervisor does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        heard, told = pipe()
        monkeypatch.setenv(PULSE, str(told))
        self.told, self.pulse, self.listener = told, Pulse(), Listener(heard)
        self.now_ns = START_NS

    def found_still(self, seconds: float, *, beating: bool) -> bool:
        """Whether it is found still at any look."""
        until_ns = self.now_ns + int(seconds * SECOND_NS)
        while self.now_ns < until_ns:
            self.now_ns += LOOK_NS // 2
            if beating:
                self.pulse.beat(self.now_ns)
            if self.listener.stands_still(self.now_ns):
                return True
        return False


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    made = Pair(monkeypatch)
    yield made
    made.listener.close()
    os.close(made.told)


def test_one_that_beats_is_not_still_and_one_that_stops_is(pair: Pair) -> None:
    assert not pair.found_still(100, beating=True)
    stopped_ns = pair.now_ns
    assert pair.found_still(100, beating=False)
    assert STILL_NS - BEAT_NS <= pair.now_ns - stopped_ns <= STILL_NS + LOOK_NS


def test_one_that_has_never_beaten_is_never_still(pair: Pair) -> None:
    assert not pair.found_still(1000, beating=False)


def test_a_listener_that_was_away_itself_begins_anew(pair: Pair) -> None:
    assert not pair.found_still(10, beating=True)
    pair.now_ns += 100 * SECOND_NS  # a pause of the whole machine
    assert not pair.listener.stands_still(pair.now_ns)
    assert not pair.found_still(STILL_NS / SECOND_NS - 4, beating=False)
    assert pair.found_still(10, beating=False)


def test_a_beat_never_blocks_though_nobody_reads(pair: Pair) -> None:
    for turn in range(100_000):  # more than the pipe holds
        pair.pulse.beat(START_NS + turn * BEAT_NS)
    assert PULSE not in os.environ
    Pulse().beat(START_NS)  # nobody listens


def test_the_beats_of_a_thousand_turns_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    heard, told = pipe()
    monkeypatch.setenv(PULSE, str(told))
    pulse = Pulse()
    for turn in range(1000):
        pulse.beat(START_NS + turn)
    assert os.read(heard, 100) == b"."
    os.close(heard)
    pulse.beat(START_NS + 2 * BEAT_NS)  # the other end is closed
    os.close(told)
