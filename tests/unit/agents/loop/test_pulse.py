"""agents/loop/pulse.py: a beat every few seconds, and none while the loop stands still."""

from agents.loop.pulse import BEAT_NS, Pulse
from agents.queues.guardian import AGAIN_S, STILL_S
from protocol.units import SECOND_NS


def test_it_beats_at_its_times_however_often_the_loop_turns() -> None:
    beats: list[int] = []
    begun_ns = now_ns = 5 * SECOND_NS
    pulse = Pulse(lambda: beats.append(now_ns))
    for _ in range(301):
        pulse.advance(now_ns)
        now_ns += BEAT_NS // 100
    assert beats == [begun_ns + number * BEAT_NS for number in range(4)]
    assert pulse.next_due_ns() == begun_ns + 4 * BEAT_NS


def test_after_a_standstill_it_beats_once_and_not_for_what_it_missed() -> None:
    beats: list[None] = []
    pulse = Pulse(lambda: beats.append(None))
    for now_ns in (0, 60 * SECOND_NS, 60 * SECOND_NS + 1):
        pulse.advance(now_ns)
    assert len(beats) == 2


def test_a_guardian_waits_for_more_than_one_beat_that_is_late() -> None:
    assert (STILL_S - AGAIN_S) * SECOND_NS > 2 * BEAT_NS
