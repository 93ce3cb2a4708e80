"""Slow work in turns: how long one may be, what it gives way to, and that it is done in the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.loop.throttle import PATIENCE_NS, REST_NS, ROOM_NS, TURN_NS, BackgroundTask, Throttle

STEP_NS = 30_000


class Host:
    """A clock that work makes go on."""

    def __init__(self, *, busy: bool = True, instant_ns: int | None = None) -> None:
        self.now = 1_000_000
        self.done = 0
        self.throttle = Throttle(lambda: self.now, lambda: busy, lambda: instant_ns)

    def work(self, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self.now += STEP_NS
            self.done += 1
            yield


def test_a_turn_ends_soon_and_the_next_is_a_while_later() -> None:
    host = Host()
    slow = BackgroundTask(host.throttle)
    slow.begin(host.work(9), host.now)
    began = host.now
    slow.advance(began)
    assert TURN_NS <= host.now - began < TURN_NS + STEP_NS and slow.due_ns == host.now + REST_NS
    done = host.done
    slow.advance(host.now)  # not due
    assert host.done == done


def test_where_nothing_is_urgent_it_is_done_at_once() -> None:
    host = Host(busy=False, instant_ns=1_000_001)
    slow = BackgroundTask(host.throttle)
    slow.begin(host.work(1000), host.now)
    slow.advance(host.now)
    assert host.done == 1000 and slow.due_ns is None


@given(st.integers(1, 60), st.integers(200_000, 3_000_000))
def test_no_turn_begins_right_before_an_instant_and_all_is_done_in_the_end(steps: int, day_ns: int) -> None:
    host = Host()
    host.throttle.watch(busy=lambda: True, next_instant_ns=lambda: (host.now // day_ns + 1) * day_ns)
    slow = BackgroundTask(host.throttle)
    began = host.now
    slow.begin(host.work(steps), host.now)
    for _ in range(100_000):
        if slow.due_ns is None:
            break
        host.now = max(host.now, slow.due_ns)
        instant, before, waited = host.throttle.next_instant_ns(), host.done, host.now - began
        slow.advance(host.now)
        if host.done > before and waited < PATIENCE_NS:
            assert instant is not None and host.now <= instant - ROOM_NS + STEP_NS
    assert host.done == steps and slow.due_ns is None


def test_new_work_waits_for_none_and_replaces_none() -> None:
    host = Host()
    slow = BackgroundTask(host.throttle)
    slow.begin(host.work(100), host.now)
    slow.advance(host.now)
    slow.begin(host.work(1), host.now)
    while slow.due_ns is not None:
        host.now = max(host.now, slow.due_ns)
        slow.advance(host.now)
    assert host.done == 100


def test_what_the_work_raises_ends_it() -> None:
    host = Host()

    def fails() -> Iterator[None]:
        yield
        raise OSError(19, "no such device")

    slow = BackgroundTask(host.throttle)
    slow.begin(fails(), host.now)
    with pytest.raises(OSError, match="no such device"):
        slow.advance(host.now)
    assert slow.due_ns is None
    slow.begin(host.work(1), host.now)
    slow.advance(host.now)
    assert host.done == 1
