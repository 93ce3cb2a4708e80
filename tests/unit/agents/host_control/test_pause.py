"""Pauses received and sent: timers, renewal, accepted senders, counters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host_control.pause import ClassCounters, OriginatedPauses, PauseSettings, ReceivedPauses
from agents.host_control.pause_watchdog import StormSettings
from protocol import pfc
from protocol.bodies.pfc import Action
from protocol.pfc import CLASSES, MAX_QUANTA, PauseFrame, PfcFrame

PARTNER, STRANGER, OURS = (bytes.fromhex(text) for text in ("02000000000a", "02000000000b", "020000000001"))
LINK = 10**10
LONGEST = pfc.longest_ns(LINK)
CALM = StormSettings(detection_ns=(10**12,) * CLASSES)
"""Settings by which nothing is a storm."""


def received(accept: frozenset[bytes] = frozenset(), storm: StormSettings = CALM, link_bps: int = LINK) -> ReceivedPauses:
    return ReceivedPauses(link_bps, PauseSettings(accept, storm))


def originated(storm: StormSettings = CALM) -> OriginatedPauses:
    return OriginatedPauses(OURS, LINK, [ClassCounters() for _ in range(CLASSES)], storm)


class TestReceived:
    """The effect of a partner's frames."""

    def test_a_pause_lasts_its_quanta_and_not_longer(self) -> None:
        pauses = received()
        pauses.receive(PfcFrame(PARTNER, {3: 100, 5: 10}).encode(), 0)
        assert pauses.paused == {3, 5}
        assert pauses.next_due_ns() == pfc.to_ns(10, LINK)
        pauses.advance(pfc.to_ns(10, LINK))
        assert pauses.paused == {3}
        pauses.advance(pfc.to_ns(100, LINK) - 1)
        assert pauses.paused == {3}
        pauses.advance(pfc.to_ns(100, LINK))
        assert not pauses.paused
        assert pauses.counters[3].paused_ns == pfc.to_ns(100, LINK)

    @pytest.mark.parametrize("link_bps", [10**8, 10**9, 25 * 10**9, 10**11])
    def test_a_quantum_is_512_bits_of_this_link(self, link_bps: int) -> None:
        pauses = received(link_bps=link_bps)
        pauses.receive(PfcFrame(PARTNER, {0: 1000}).encode(), 0)
        assert pauses.next_due_ns() == 1000 * 512 * 10**9 // link_bps

    def test_a_later_frame_starts_the_timer_anew_be_it_longer_or_shorter(self) -> None:
        pauses = received()
        pauses.receive(PfcFrame(PARTNER, {3: 1000}).encode(), 0)
        pauses.receive(PfcFrame(PARTNER, {3: 2000}).encode(), 10)
        assert pauses.next_due_ns() == 10 + pfc.to_ns(2000, LINK)
        pauses.receive(PfcFrame(PARTNER, {3: 5}).encode(), 20)
        assert pauses.next_due_ns() == 20 + pfc.to_ns(5, LINK)

    def test_a_time_of_zero_resumes_at_once_and_only_its_class(self) -> None:
        pauses = received()
        pauses.receive(PfcFrame(PARTNER, {3: 1000, 4: 1000}).encode(), 0)
        pauses.receive(PfcFrame(PARTNER, {3: 0}).encode(), 100)
        assert pauses.paused == {4}
        assert (pauses.counters[3].received, pauses.counters[3].paused_ns) == (2, 100)

    def test_a_class_whose_bit_is_clear_stays_paused(self) -> None:
        pauses = received()
        pauses.receive(PfcFrame(PARTNER, {3: 1000}).encode(), 0)
        pauses.receive(PfcFrame(PARTNER, {4: 1000}).encode(), 1)
        assert pauses.paused == {3, 4}

    def test_an_802_3x_pause_is_for_all_classes(self) -> None:
        pauses = received()
        pauses.receive(PauseFrame(PARTNER, 1000).encode(), 0)
        assert pauses.paused == frozenset(range(CLASSES))
        pauses.receive(PauseFrame(PARTNER, 0).encode(), 1)
        assert not pauses.paused

    def test_the_shortest_pause_of_the_fastest_link_is_no_xon(self) -> None:
        pauses = received(link_bps=800 * 10**9)
        pauses.receive(PfcFrame(PARTNER, {3: 1}).encode(), 0)
        assert pauses.paused == {3}
        pauses.advance(1)
        assert not pauses.paused

    def test_a_partner_that_is_not_authorised_is_counted_and_changes_nothing(self) -> None:
        pauses = received(frozenset({PARTNER}))
        pauses.receive(PfcFrame(STRANGER, {3: 1000}).encode(), 0)
        assert not pauses.paused
        assert (pauses.counters[3].refused, pauses.counters[3].received, pauses.bad["partner"]) == (1, 0, 1)
        pauses.receive(PfcFrame(PARTNER, {3: 1000}).encode(), 0)
        pauses.receive(PfcFrame(STRANGER, {3: 0}).encode(), 0)
        assert pauses.paused == {3}

    @pytest.mark.parametrize(
        ("frame", "cause"),
        [
            (PfcFrame(PARTNER, {3: 9}).encode()[:59], "short"),
            (PARTNER + PfcFrame(PARTNER, {3: 9}).encode()[6:], "destination"),
            (PfcFrame(PARTNER, {3: 9}).encode().replace(b"\x88\x08\x01\x01", b"\x88\x08\x01\x02"), "opcode"),
        ],
    )
    def test_a_bad_frame_is_counted_by_its_cause_and_ignored(self, frame: bytes, cause: str) -> None:
        pauses = received()
        pauses.receive(frame, 0)
        assert not pauses.paused
        assert pauses.bad == {cause: 1}

    def test_the_present_pause_counts_as_paused_time(self) -> None:
        pauses = received()
        pauses.receive(PfcFrame(PARTNER, {3: 1000}).encode(), 0)
        assert pauses.paused_ns(3, 700) == 700

    def test_release_opens_everything_until_the_next_pause(self) -> None:
        pauses = received()
        pauses.receive(PauseFrame(PARTNER, 1000).encode(), 0)
        pauses.release(5)
        assert not pauses.paused
        pauses.receive(PfcFrame(PARTNER, {1: 10}).encode(), 6)
        assert pauses.paused == {1}


frames = st.builds(
    PfcFrame, st.sampled_from([PARTNER, STRANGER]), st.dictionaries(st.integers(0, 7), st.sampled_from([0, 1, 500, MAX_QUANTA]))
)


@given(st.lists(st.tuples(st.integers(0, 2 * LONGEST), frames), max_size=30))
def test_a_class_is_paused_exactly_while_its_last_timer_runs(steps: list[tuple[int, PfcFrame]]) -> None:
    pauses, until, now = received(frozenset({PARTNER})), dict.fromkeys(range(CLASSES), 0), 0
    for wait, frame in steps:
        now += wait
        pauses.advance(now)
        pauses.receive(frame.encode(), now)
        if frame.source == PARTNER:
            until |= {priority: now + pfc.to_ns(quanta, LINK) for priority, quanta in frame.quanta.items()}
        assert pauses.paused == {priority for priority, end in until.items() if end > now}


class TestOriginated:
    """The frames of this host's own pauses."""

    def test_a_short_pause_is_one_frame_and_an_end(self) -> None:
        pauses = originated()
        (first,) = pauses.pause([3, 5], 2_000_000, 0)
        quanta = pfc.to_quanta(2_000_000, LINK)
        assert pfc.decode(first) == PfcFrame(OURS, {3: quanta, 5: quanta})
        assert pauses.next_due_ns() == 2_000_000
        frames, _ = pauses.advance(2_000_000)
        assert [pfc.decode(frame) for frame in frames] == [PfcFrame(OURS, {3: 0, 5: 0})]
        assert pauses.next_due_ns() is None
        assert pauses.counters[3].sent == 2

    def test_resume_says_so_at_once(self) -> None:
        pauses = originated()
        pauses.pause([3], 10 * LONGEST, 0)
        assert [pfc.decode(frame) for frame in pauses.resume([3], 5)] == [PfcFrame(OURS, {3: 0})]
        assert pauses.next_due_ns() is None

    def test_a_later_pause_replaces_the_end(self) -> None:
        pauses = originated()
        pauses.pause([3], 10 * LONGEST, 0)
        pauses.pause([3], 1000, 5)
        assert pauses.next_due_ns() == 1005

    @pytest.mark.parametrize(
        "bad", [lambda p: p.pause([8], 5, 0), lambda p: p.resume([-1], 0), lambda p: p.pause([3, 9], 5, 0)]
    )
    def test_a_class_above_seven_is_an_error_and_changes_nothing(self, bad: Callable[[OriginatedPauses], object]) -> None:
        pauses = originated()
        with pytest.raises(ValueError, match="write classes from 0 to 7"):
            bad(pauses)
        assert not pauses.paused

    @pytest.mark.parametrize(("classes", "duration"), [((), 5), ((3,), 0), ((3,), -1)])
    def test_a_pause_of_nothing_is_an_error(self, classes: tuple[int, ...], duration: int) -> None:
        with pytest.raises(ValueError, match="class from 0 to 7 and a duration"):
            originated().pause(classes, duration, 0)

    @given(st.integers(1, 20 * LONGEST), st.integers(0, LONGEST // 4))
    def test_the_partner_stays_paused_until_the_end_however_late_we_are(self, duration: int, late: int) -> None:
        pauses, partner, now = originated(), received(), 0
        for frame in pauses.pause([3], duration, 0):
            partner.receive(frame, 0)
        while (due := pauses.next_due_ns()) is not None:
            now = max(now, due + late if due < duration else due)
            partner.advance(min(now, duration - 1))
            assert partner.paused == {3}
            frames, _ = pauses.advance(now)
            for frame in frames:
                partner.receive(frame, now)
        assert not partner.paused
        assert now <= duration + late


def test_a_storm_of_our_own_ends_with_an_xon_and_is_dropped() -> None:
    storm = StormSettings(detection_ns=(1000,) * CLASSES, restoration_ns=(500,) * CLASSES)
    pauses = originated(storm)
    pauses.pause([3], 10**9, 0)
    frames, changes = pauses.advance(1000)
    assert [pfc.decode(frame) for frame in frames] == [PfcFrame(OURS, {3: 0})]
    assert [(change.priority, change.began) for change in changes] == [(3, True)]
    assert pauses.pause([3], 100, 1200) == []
    assert (pauses.counters[3].refused, pauses.counters[3].storms) == (1, 1)
    assert len(pauses.pause([4], 100, 1200)) == 1
    pauses.advance(1700)
    assert len(pauses.pause([3], 100, 1700)) == 1


class TestStormsReceived:
    """The limits of a flood of pauses."""

    @given(st.integers(3_000, 300_000), st.sampled_from([Action.DROP, Action.FORWARD]))
    def test_a_flood_of_forged_pauses_silences_a_class_at_most_the_detection_time(self, period: int, action: Action) -> None:
        detection, restoration = 1_000_000, 3_000_000
        storm = StormSettings((detection,) * CLASSES, (restoration,) * CLASSES, action)
        pauses, now, silent_since, longest = received(storm=storm), 0, None, 0
        while now < 5_000_000:
            pauses.receive(PauseFrame(STRANGER, MAX_QUANTA).encode(), now)
            now += period
            for at in (pauses.next_due_ns() or now, now):
                if at <= now:
                    pauses.advance(at)
                    if 3 in pauses.paused and silent_since is None:
                        silent_since = max(0, at - period)
                    elif 3 not in pauses.paused and silent_since is not None:
                        longest, silent_since = max(longest, at - silent_since), None
        assert longest <= detection + period
        assert pauses.counters[3].paused_ns <= detection * (1 if action is Action.DROP else 2)

    def test_after_restoration_pauses_are_obeyed_again(self) -> None:
        storm = StormSettings((1000,) * CLASSES, (500,) * CLASSES)
        pauses = received(storm=storm)
        pauses.receive(PfcFrame(PARTNER, {3: MAX_QUANTA}).encode(), 0)
        pauses.advance(1000)
        assert not pauses.paused
        pauses.receive(PfcFrame(PARTNER, {3: MAX_QUANTA}).encode(), 1100)
        assert not pauses.paused
        assert pauses.counters[3].refused == 1
        pauses.advance(1600)
        pauses.receive(PfcFrame(PARTNER, {3: 10}).encode(), 1700)
        assert pauses.paused == {3}

    def test_alert_tells_and_goes_on_obeying(self) -> None:
        pauses = received(storm=StormSettings((1000,) * CLASSES, (500,) * CLASSES, Action.ALERT))
        pauses.receive(PfcFrame(PARTNER, {3: MAX_QUANTA}).encode(), 0)
        changes = pauses.advance(1000)
        assert [(change.priority, change.began) for change in changes] == [(3, True)]
        assert pauses.paused == {3}
        assert pauses.counters[3].storms == 1
