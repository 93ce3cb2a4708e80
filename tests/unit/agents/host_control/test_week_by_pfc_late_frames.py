"""A pause frame that arrives after the last night of a week by PFC leaves no class open."""

from __future__ import annotations

from agents.host_control.pause import ReceivedPauses
from protocol.pfc import CLASSES, MAX_QUANTA, PfcFrame

SOURCE = bytes.fromhex("020000000001")
MS = 1_000_000


def frame(quanta: dict[int, int]) -> bytes:
    return PfcFrame(SOURCE, quanta).encode()


class TestPresumedPauses:
    """`ReceivedPauses.assume_paused`, as an agent calls it at the last night."""

    def test_every_class_is_paused_though_no_frame_said_so(self) -> None:
        received = ReceivedPauses(10**9)
        received.assume_paused(5 * MS, now_ns=0)
        assert received.paused == frozenset(range(CLASSES))

    def test_a_resume_opens_one(self) -> None:
        received = ReceivedPauses(10**9)
        received.assume_paused(5 * MS, now_ns=0)
        received.receive(frame({3: 0}), 1 * MS)
        assert received.paused == frozenset(range(CLASSES)) - {3}

    def test_a_late_pause_goes_on_as_long_as_it_says(self) -> None:
        received = ReceivedPauses(10**9)
        received.assume_paused(5 * MS, now_ns=0)
        received.receive(frame({7: MAX_QUANTA}), 1 * MS)
        received.advance(6 * MS)
        assert received.paused == {7}

    def test_what_is_paused_already_keeps_its_time(self) -> None:
        received = ReceivedPauses(10**9)
        received.receive(frame({7: MAX_QUANTA}), 0)
        received.assume_paused(5 * MS, now_ns=1 * MS)
        received.advance(6 * MS)
        assert received.paused == {7}

    def test_it_ends_by_itself(self) -> None:
        received = ReceivedPauses(10**9)
        received.assume_paused(5 * MS, now_ns=0)
        received.advance(5 * MS)
        assert not received.paused
