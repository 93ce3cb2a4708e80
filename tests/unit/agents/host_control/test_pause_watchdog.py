"""The watchdog: what is a storm, and what ends it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host_control.pause_watchdog import PauseWatchdog, StormSettings
from protocol.bodies.pfc import Action
from protocol.pfc import CLASSES

DETECTION, RESTORATION = 1000, 500


def watchdog(action: Action = Action.DROP) -> PauseWatchdog:
    return PauseWatchdog(StormSettings((DETECTION,) * CLASSES, (RESTORATION,) * CLASSES, action))


def in_storm(action: Action = Action.DROP) -> PauseWatchdog:
    """A watchdog in which class 3 has a storm since 1000."""
    dog = watchdog(action)
    dog.paused(3, True, 0)
    dog.advance(DETECTION)
    if dog.ignored(3):
        dog.paused(3, False, DETECTION)
    assert dog.storming(3)
    return dog


def test_a_class_paused_for_the_detection_time_has_a_storm() -> None:
    dog = watchdog()
    dog.paused(3, True, 100)
    assert dog.next_due_ns() == 100 + DETECTION
    assert dog.advance(99 + DETECTION) == []
    assert dog.advance(100 + DETECTION) == [(3, True, 100 + DETECTION)]
    assert dog.ignored(3)
    assert not dog.storming(4)
    assert dog.storms[3] == 1


def test_classes_have_times_of_their_own() -> None:
    dog = PauseWatchdog(StormSettings((100, 900, *(5000,) * 6), (7, 8, *(9,) * 6)))
    for priority in (0, 1, 2):
        dog.paused(priority, True, 0)
    assert [change.priority for change in dog.advance(900)] == [0, 1]
    assert [(c.priority, c.began) for c in dog.advance(908)] == [(0, False), (1, False)]


def test_an_instant_of_xon_does_not_hide_a_storm() -> None:
    dog, now = watchdog(), 0
    while now < 3 * DETECTION and not dog.storming(3):
        dog.paused(3, True, now)
        dog.advance(now + 99)
        dog.paused(3, False, now + 99)
        now += 100
    assert dog.storming(3)


@given(st.integers(1, DETECTION - 1), st.integers(1, 60))
def test_a_class_that_is_open_a_fifth_of_the_time_has_no_storm(pause: int, times: int) -> None:
    dog, now = watchdog(), 0
    for _ in range(times):
        dog.paused(3, True, now)
        assert not dog.advance(now + pause)
        dog.paused(3, False, now + pause)
        now += pause + -(-pause // 4)
    assert dog.storms[3] == 0


def test_drop_ends_when_no_pause_has_come_for_the_restoration_time() -> None:
    dog = in_storm()
    dog.xoff(3, 1400)
    assert dog.advance(1500) == []
    assert dog.advance(1400 + RESTORATION) == [(3, False, 1900)]
    assert not dog.ignored(3)
    assert dog.next_due_ns() is None


def test_forward_ends_after_the_restoration_time_though_pauses_go_on() -> None:
    dog = in_storm(Action.FORWARD)
    dog.xoff(3, 1499)
    assert dog.ignored(3)
    assert dog.advance(1500) == [(3, False, 1500)]
    assert not dog.ignored(3)


def test_alert_mutes_nothing() -> None:
    dog = in_storm(Action.ALERT)
    assert not dog.ignored(3)
    assert dog.advance(1000 + RESTORATION) == [(3, False, 1500)]


def test_xons_do_not_put_off_restoration() -> None:
    dog = in_storm()
    for now in range(1000, 1500, 10):
        dog.paused(3, False, now)
    assert dog.advance(1500) == [(3, False, 1500)]


@given(st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=60), st.sampled_from([Action.DROP, Action.FORWARD]))
def test_nothing_is_muted_for_longer_than_restoration_after_the_last_pause(
    steps: list[tuple[int, bool]], action: Action
) -> None:
    dog, now, last = in_storm(action), 1000, 1000
    for wait, pause in steps:
        now += wait
        dog.advance(now)
        if pause:
            dog.xoff(3, now)
            last = now
    dog.advance(max(now, last + RESTORATION))
    assert not dog.ignored(3)


@pytest.mark.parametrize("times", [(), (1,) * 7, (1,) * 7 + (0,)])
def test_settings_need_a_time_for_each_class(times: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one for each class"):
        StormSettings(detection_ns=times)
