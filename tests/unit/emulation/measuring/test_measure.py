"""Statistics of measured values, and when traffic programs send."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.fabric import qdisc_stats
from emulation.measuring.fidelity import CpuTimes, Fidelity
from emulation.measuring.measure import Pings, jain, mean, percentile, rate_mbps
from emulation.traffic.workloads import Rhythm, echo_request, request_of

MS = 1_000_000


class TestFairness:
    """Jain's index."""

    def test_equal_shares_are_fair_and_one_of_five_with_all_is_a_fifth(self) -> None:
        assert jain([7.0] * 5) == pytest.approx(1)
        assert jain([9.0, 0, 0, 0, 0]) == pytest.approx(0.2)

    def test_nothing_at_all_is_shared_fairly(self) -> None:
        assert jain([]) == jain([0.0, 0.0]) == 1

    @given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20))
    def test_it_lies_between_one_nth_and_one(self, shares: list[float]) -> None:
        assert 1 / len(shares) - 1e-9 <= jain(shares) <= 1 + 1e-9


class TestPercentile:
    """Nearest rank."""

    def test_of_a_hundred_values_the_99th_is_the_second_largest(self) -> None:
        assert percentile(range(1, 101), 99) == 99
        assert percentile(range(1, 101), 50) == 50
        assert percentile(range(1, 101), 100) == 100

    @pytest.mark.parametrize("percent", [99.9, 55, 7])
    def test_of_a_thousand_values_every_tenth_of_a_percent_is_one(self, percent: float) -> None:
        """In floats 99.9 % of 1,000 are more than 999."""
        assert percentile(range(1, 1001), percent) == round(10 * percent)

    def test_of_nothing_there_is_none(self) -> None:
        assert percentile([], 50) is None
        assert mean([]) is None

    @given(st.lists(st.integers(), min_size=1), st.floats(0, 100))
    def test_at_least_that_share_of_the_values_does_not_exceed_it(self, values: list[int], percent: float) -> None:
        found = percentile(values, percent)
        assert found in values
        assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-9


def test_a_rate_is_in_megabits_of_a_million() -> None:
    assert rate_mbps(12_500_000, 10**9) == pytest.approx(100)


class TestPings:
    """Round-trip times of the prober."""

    def test_replies_are_in_the_order_of_the_requests(self) -> None:
        found = {"sent": 5, "rtt_ns": [[1, 500_000], [3, 12_500_000], [2, 1_013_000_000]]}
        assert Pings.of_probe(found) == Pings((0.5, 1013.0, 12.5), sent=5, lost=2, numbers=(1, 2, 3))

    def test_no_reply_at_all_is_all_lost_and_has_no_times(self) -> None:
        pings = Pings.of_probe({"sent": 9, "rtt_ns": []})
        assert (pings.sent, pings.lost) == (9, 9)
        assert pings.summary() == {"p50": None, "p99": None, "max": None}

    @given(st.integers(0, 0xFFFF), st.integers(0, 1 << 20))
    def test_the_checksum_of_a_request_adds_up(self, identifier: int, number: int) -> None:
        request = echo_request(8, identifier, number)
        total = sum(struct.unpack("!32H", request))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF

    @given(st.integers(1, 1 << 20), st.integers(0, 0xFFFF))
    def test_a_reply_belongs_to_the_newest_request_with_its_sequence_number(self, sent: int, before: int) -> None:
        number = max(1, sent - before)
        assert request_of(number & 0xFFFF, sent) == number


class TestFidelity:
    """Whether a run is valid."""

    def test_idle_and_stolen_time_are_fractions_of_the_window(self) -> None:
        before = CpuTimes.parse("cpu  100 7 100 793 0 0 0 0 0 0\ncpu0 ...")
        after = CpuTimes.parse("cpu  150 47 100 843 10 0 30 20 0 0\ncpu0 ...")
        found = Fidelity.between(before, after)
        assert (found.idle, found.steal) == (0.5, 0.1)
        assert found.saturated  # a tenth was stolen
        assert after.stolen_since(before) == 0.2  # of the half in which a program wanted a processor
        assert before.stolen_since(before) == 0.0

    @pytest.mark.parametrize(
        ("idle", "late_ns", "saturated"),
        [(0.4, (50_000,) * 100, False), (0.01, (), True), (0.4, (50_000,) * 98 + (5 * MS,) * 2, True)],
    )
    def test_no_idle_time_or_late_timers_mean_that_something_waited(
        self, idle: float, late_ns: tuple[int, ...], saturated: bool
    ) -> None:
        assert Fidelity(idle, 0.0, late_ns).saturated is saturated


class TestRhythm:
    """When a sender may send."""

    def test_without_a_rate_it_may_send_at_any_time_after_its_beginning(self) -> None:
        rhythm = Rhythm(10 * MS, 100 * MS, 0, 0, 0, 0)
        assert rhythm.next_ns(3 * MS) == 10 * MS
        assert rhythm.next_ns(50 * MS) == 50 * MS

    def test_a_paced_sender_keeps_its_rate(self) -> None:
        rhythm = Rhythm(0, 10**9, 8_000_000, 0, 0, 0)  # a million bytes a second
        now_ns = 0
        for _ in range(100):
            now_ns = rhythm.next_ns(now_ns)
            rhythm.sent(now_ns, 1000)
        assert now_ns == 99 * MS

    def test_a_paced_sender_that_woke_late_keeps_its_rate_but_one_held_back_for_long_sends_no_long_burst(self) -> None:
        rhythm = Rhythm(0, 10**9, 8_000_000, 0, 0, 0)
        late_ns = 500 * MS
        blocks = 0
        while rhythm.next_ns(late_ns) == late_ns:
            rhythm.sent(late_ns, 1000)
            blocks += 1
        assert blocks == 22  # the one that was late, 20 ms of others, and the one that is due now

    @pytest.mark.parametrize("phase_ns", [0, 7 * MS])
    def test_a_paced_sender_has_its_rate_in_each_on_phase_and_sends_nothing_for_the_time_off(self, phase_ns: int) -> None:
        rhythm = Rhythm(0, 10**9, 8_000_000, 20 * MS, 80 * MS, phase_ns)
        phases = [0] * 10
        now_ns = 0
        while (now_ns := rhythm.next_ns(now_ns)) < 10**9:
            phases[(now_ns - phase_ns) // (100 * MS)] += 1
            now_ns += 5_000  # that is how long sending takes
            rhythm.sent(now_ns, 1000)
        assert phases == [20] * 10

    @given(st.integers(0, 10**10), st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 10**9))
    def test_it_sends_in_its_on_phases_only(self, now_ns: int, on_ns: int, off_ns: int, phase_ns: int) -> None:
        due_ns = Rhythm(0, 10**11, 0, on_ns, off_ns, phase_ns).next_ns(now_ns)
        assert due_ns >= max(now_ns, phase_ns)
        assert (due_ns - phase_ns) % (on_ns + off_ns) < on_ns
        assert due_ns - max(now_ns, phase_ns) <= off_ns


class TestQdiscMessages:
    """The netlink messages that read counters."""

    def test_a_request_names_the_interface_and_the_queue_and_has_its_length(self) -> None:
        message = qdisc_stats.request(7, 0x130000)
        length, kind, flags = struct.unpack_from("=IHH", message)
        assert (length, kind, flags) == (len(message), 38, 0x9)  # RTM_GETQDISC; NLM_F_REQUEST | NLM_F_ECHO
        assert struct.unpack_from("=iI", message, 20) == (7, 0x130000)

    def test_an_error_of_the_kernel_is_raised_as_one(self) -> None:
        with pytest.raises(FileNotFoundError):
            qdisc_stats.parse(struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -2) + bytes(16))
