"""agents/loop/pulse.py: a beat each second, and none while the loop stands still."""

from agents.loop.pulse import Pulse
from protocol.units import SECOND_NS


def test_it_beats_once_a_second_however_often_the_loop_turns() -> None:
    beats: list[int] = []
    now_ns = 5 * SECOND_NS
    pulse = Pulse(lambda: beats.append(now_ns))
    for _ in range(301):  # three seconds
        pulse.advance(now_ns)
        now_ns += SECOND_NS // 100
    assert beats == [second * SECOND_NS for second in (5, 6, 7, 8)]
    assert pulse.next_due_ns() == 9 * SECOND_NS


def test_after_a_standstill_it_beats_once_and_not_for_what_it_missed() -> None:
    beats: list[None] = []
    pulse = Pulse(lambda: beats.append(None))
    for now_ns in (0, 60 * SECOND_NS, 60 * SECOND_NS + 1):
        pulse.advance(now_ns)
    assert len(beats) == 2
