"""How an agent waits, over real pipes: the same answers asleep and polling."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from agents.loop import waiting
from agents.loop.waiting import POLLED_NS, REST_NS, Waiting

LONG_NS, SHORT_NS = 5_000_000_000, 20_000_000


class Pipes:
    """Three descriptors, of which the last is that of deferred frames."""

    def __init__(self) -> None:
        self.ends = [os.pipe() for _ in range(3)]
        self.first, self.second, self.deferred = (reading for reading, _ in self.ends)
        self.waiting = Waiting([self.first, self.second], self.deferred)

    def fill(self, reading: int) -> None:
        os.write(dict(self.ends)[reading], b"!")

    def until(self, ns: int, *, poll: bool, deferred: bool = False) -> tuple[list[int], int]:
        """What became readable, in as many looks as it takes, and how long that took."""
        begin = now = time.monotonic_ns()
        found: list[int] = []
        while not found and now < begin + ns:
            found = self.waiting.until(begin + ns, poll=poll, deferred=deferred)
            now = time.monotonic_ns()
        return sorted(found), now - begin

    def close(self) -> None:
        self.waiting.close()
        for ends in self.ends:
            for end in ends:
                os.close(end)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    made.close()


@pytest.mark.parametrize("poll", [False, True])
class TestBoth:
    def test_what_is_readable_is_said_at_once(self, pipes: Pipes, poll: bool) -> None:
        pipes.fill(pipes.first)
        pipes.fill(pipes.second)
        found, took = pipes.until(LONG_NS, poll=poll)
        assert found == sorted((pipes.first, pipes.second)) and took < LONG_NS / 2

    def test_nothing_is_said_when_it_is_time_and_not_before(self, pipes: Pipes, poll: bool) -> None:
        found, took = pipes.until(SHORT_NS, poll=poll)
        assert found == [] and SHORT_NS <= took < LONG_NS

    def test_what_is_patient_is_waited_for_only_when_asked(self, pipes: Pipes, poll: bool) -> None:
        pipes.fill(pipes.deferred)
        assert pipes.until(SHORT_NS, poll=poll)[0] == []
        found, took = pipes.until(LONG_NS, poll=poll, deferred=True)
        assert found == [pipes.deferred] and took < LONG_NS / 2

    def test_what_is_due_already_waits_for_nothing_but_sees_what_is_there(self, pipes: Pipes, poll: bool) -> None:
        pipes.fill(pipes.first)
        assert pipes.waiting.until(time.monotonic_ns() - 1, poll=poll, deferred=False) == [pipes.first]


class Sleeps:
    """How long each sleep was to be, in seconds; none is slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[float] = []
        monkeypatch.setattr(waiting.select, "select", self._select)

    def _select(self, descriptors: list[int], *rest: object) -> tuple[list[int], list[int], list[int]]:
        self.asked.append(float(str(rest[-1])))
        return [], [], []


def test_polling_looks_once_and_comes_back(pipes: Pipes) -> None:
    begin = time.monotonic_ns()
    pipes.waiting.until(begin + POLLED_NS, poll=False, deferred=False)
    assert pipes.waiting.until(begin + LONG_NS, poll=True, deferred=False) == []
    assert time.monotonic_ns() - begin < LONG_NS / 2


def test_who_polls_rests_now_and_then(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Sleeps(monkeypatch)
    begin = time.monotonic_ns()
    pipes.until(4 * SHORT_NS, poll=True)
    took = time.monotonic_ns() - begin
    assert 4 <= len(sleeps.asked) <= took / POLLED_NS + 1
    assert max(sleeps.asked) <= REST_NS / 1e9


def test_but_not_right_before_something_is_due(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Sleeps(monkeypatch)
    for _ in range(1000):
        pipes.waiting.until(time.monotonic_ns() + 2 * REST_NS, poll=True, deferred=False)
    assert sleeps.asked == []


def test_what_comes_during_a_rest_ends_it(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REST_NS", LONG_NS // 4)
    timer = threading.Timer(0.02, pipes.fill, [pipes.first])
    timer.start()
    found, took = pipes.until(LONG_NS, poll=True)
    timer.join()
    assert found == [pipes.first] and took < LONG_NS / 4


class Obeys:
    """A reflex with something to do, or with nothing."""

    def __init__(self) -> None:
        self.busy = False
        self.waits: list[tuple[list[int], int, bool]] = []

    def plan(self) -> bool:
        return self.busy

    def wait(self, descriptors: Sequence[int], due_ns: int, *, poll: bool) -> list[int]:
        self.waits.append((list(descriptors), due_ns, poll))
        return [7]


def test_a_reflex_waits_in_its_place_while_it_has_something_to_do(pipes: Pipes) -> None:
    obeys = Obeys()
    waiting = Waiting([pipes.first], pipes.deferred, obeys)
    assert waiting.until(0, poll=False, deferred=False) == []
    obeys.busy = True
    assert waiting.until(5, poll=False, deferred=False) == waiting.until(6, poll=True, deferred=True) == [7]
    assert obeys.waits == [([pipes.first], 5, False), ([pipes.first, pipes.deferred], 6, True)]
    waiting.close()
