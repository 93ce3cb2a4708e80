"""MCP's arithmetic: eBPF and model compute the same; the rate keeps its bounds; flows are in time on a fluid link."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import agents.bpf
from agents.priorities.mcp_settings import MOST_LINK_BPS, McpSettings, Termination
from tests.unit.agents.priorities import packet_link
from tests.unit.agents.priorities.fluid_link import MSS, Deadline, run
from tests.unit.agents.priorities.mcp_model import (
    MOST_BEHIND_BYTES,
    McpFlow,
    McpWindow,
    expected_rate,
    floor_rate,
    gives_up,
    in_flight,
    queueing_us,
    restart_rate,
    segments,
    start,
    step,
    time_left,
    time_of_chance,
)

HEADER = Path(agents.bpf.__file__).parent / "mcp.h"
LINK_BPS = 100_000_000
U64, U32 = ctypes.c_uint64, ctypes.c_uint32


class _Flow(ctypes.Structure):
    _fields_ = (("rate", U64), ("behind", U64))


class _Window(ctypes.Structure):
    _fields_ = (
        *((name, U64) for name in ("expected", "elapsed_us", "acked", "rtt_us")),
        *((name, U32) for name in ("delivered", "marked", "mss", "reserved")),
        *((name, U64) for name in ("queue_us", "chance_us")),
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """agents/bpf/mcp.h compiled for this machine's processor."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler (the package gcc)")
    directory = tmp_path_factory.mktemp("mcp")
    source = directory / "mcp.c"
    # Its functions are static: what a test calls gets a name of its own.
    names = {
        "start": "void", "step": "void", "expected": "__u64", "time_left": "__u64", "in_flight": "__u32", "gives_up": "int",
        "chance": "__u64", "restart": "__u64", "queue_us": "__u64",
    }  # fmt: skip
    pointers = "const struct mcp_settings *s"
    arguments = {
        "start": (f"{pointers}, struct mcp_flow *f, const struct mcp_window *w", "s, f, w"),
        "step": (f"{pointers}, struct mcp_flow *f, const struct mcp_window *w", "s, f, w"),
        "expected": ("__u64 a, __u64 b, __u64 c", "a, b, c"),
        "time_left": (f"{pointers}, __u64 a, __u64 b, __u64 c", "s, a, b, c"),
        "in_flight": (f"{pointers}, __u64 a, __u64 b, __u64 c, __u32 d", "s, a, b, c, d"),
        "chance": (f"{pointers}, __u64 a, __u64 b", "s, a, b"),
        "restart": (f"{pointers}, __u64 a, __u32 b", "s, a, b"),
        "queue_us": ("__u64 a, __u64 b, __u64 c, __u32 d", "a, b, c, d"),
        "gives_up": (f"{pointers}, const struct mcp_flow *f, const struct mcp_window *w, __u64 a, __u64 b", "s, f, w, a, b"),
    }
    body = [f"{names[name]} t_{name}({takes}) {{ return mcp_{name}({gives}); }}" for name, (takes, gives) in arguments.items()]
    source.write_text(f'#include <linux/types.h>\n#include "{HEADER}"\n' + "\n".join(body))
    subprocess.run(("cc", "-O1", "-w", "-shared", "-fPIC", "-o", directory / "mcp.so", source), check=True)
    library = ctypes.CDLL(str(directory / "mcp.so"))
    library.t_expected.restype = library.t_time_left.restype = library.t_chance.restype = U64
    library.t_restart.restype = library.t_queue_us.restype = U64
    library.t_in_flight.restype = U32
    return library


mcp_settings = st.builds(
    McpSettings,
    link_bps=st.integers(100_000, 100_000_000_000),
    marking_packets=st.integers(1, 10_000),
    kappa=st.floats(1 / 1024, 0.5),
    aim=st.floats(0.1, 1.0),
    termination=st.sampled_from(Termination),
    multiple=st.floats(0.1, 1000),
    crowd_packets=st.integers(0, 10_000),
)
rtts_us = st.integers(0, 5_000_000)
windows = st.builds(
    McpWindow,
    expected=st.integers(1, 1 << 36),
    elapsed_us=st.integers(0, 10_000_000),
    acked=st.integers(0, 1 << 34),
    rtt_us=rtts_us,
    delivered=st.integers(0, 1_000_000),
    marked=st.integers(0, 1_000_000),
    mss=st.integers(88, 9_000),
    queue_us=rtts_us,
    chance_us=st.integers(0, 4_094_000),
)
behind_bytes = st.integers(0, MOST_BEHIND_BYTES)


def in_c(window: McpWindow) -> _Window:
    counts = (window.delivered, window.marked, window.mss, 0)
    return _Window(
        window.expected, window.elapsed_us, window.acked, window.rtt_us, *counts, window.queue_us, window.chance_us
    )


class TestTheSameInC:
    """The kernel's code computes the same as the model that these tests use."""

    @given(mcp_settings, windows, behind_bytes, st.data())
    def test_a_step_and_a_start_are_number_for_number_the_same(
        self, compiled: ctypes.CDLL, chosen: McpSettings, window: McpWindow, behind: int, data: st.DataObject
    ) -> None:
        rate = data.draw(st.integers(0, chosen.link_rate) | st.integers(0, MOST_LINK_BPS // 8))
        raw, found = chosen.encode(), _Flow(rate, behind)
        compiled.t_step(raw, ctypes.byref(found), ctypes.byref(in_c(window)))
        assert McpFlow(found.rate, found.behind) == step(chosen, McpFlow(rate, behind), window)
        compiled.t_start(raw, ctypes.byref(found), ctypes.byref(in_c(window)))
        assert McpFlow(found.rate, found.behind) == start(chosen, window)

    @given(mcp_settings, windows, behind_bytes, st.integers(0, 1 << 30), st.integers(0, 4_094_000), st.integers(0, 1 << 40))
    def test_what_is_expected_and_what_is_hopeless_are_the_same(
        self, compiled: ctypes.CDLL, chosen: McpSettings, window: McpWindow, behind: int, size: int, us: int, elapsed: int
    ) -> None:
        raw, rate = chosen.encode(), window.expected % (chosen.link_rate + 1)
        assert compiled.t_expected(U64(size), U64(us), U64(window.rtt_us)) == expected_rate(size, us, window.rtt_us)
        until_aim = time_left(chosen, us, elapsed, window.rtt_us)
        assert compiled.t_time_left(raw, U64(us), U64(elapsed), U64(window.rtt_us)) == until_aim
        most = compiled.t_in_flight(raw, U64(rate), U64(window.rtt_us), U64(window.queue_us), U32(window.mss))
        assert most == in_flight(chosen, McpFlow(rate, behind), window)
        assert compiled.t_chance(raw, U64(size), U64(us)) == time_of_chance(chosen, size, us)
        assert compiled.t_restart(raw, U64(window.rtt_us), U32(window.mss)) == restart_rate(chosen, window.rtt_us, window.mss)
        queue_us = compiled.t_queue_us(U64(window.rtt_us), U64(window.queue_us), U64(rate), U32(window.mss))
        assert queue_us == queueing_us(window.rtt_us, window.queue_us, rate, window.mss)
        pointers = (ctypes.byref(_Flow(rate, behind)), ctypes.byref(in_c(window)))
        given_up = compiled.t_gives_up(raw, *pointers, U64(size), U64(us))
        assert bool(given_up) == gives_up(chosen, McpFlow(rate, behind), window, size, us)


class TestTheRate:
    """Bounds, directions, scale."""

    @given(mcp_settings, windows, behind_bytes, st.data())
    def test_it_never_passes_the_link_nor_falls_below_the_floor(
        self, chosen: McpSettings, window: McpWindow, behind: int, data: st.DataObject
    ) -> None:
        assume(not chosen.crowd_packets or window.chance_us)
        rate = data.draw(st.integers(1, chosen.link_rate))
        after = step(chosen, McpFlow(rate, behind), window)
        assert min(floor_rate(window), chosen.link_rate) <= after.rate <= chosen.link_rate
        assert after.rate <= max(2 * rate, floor_rate(window)) and after.rate >= rate // 2

    @given(mcp_settings, windows, behind_bytes, st.integers(0, MOST_LINK_BPS // 8))
    def test_of_a_path_that_has_become_slower_it_takes_the_link_at_most(
        self, chosen: McpSettings, window: McpWindow, behind: int, more: int
    ) -> None:
        at_once = step(chosen, McpFlow(chosen.link_rate, behind), window)
        assert step(chosen, McpFlow(chosen.link_rate + more, behind), window) == at_once

    @given(st.integers(50, 1_000_000), st.integers(88, 9_000))
    def test_after_a_timeout_the_next_segment_leaves_within_a_round_trip(self, rtt_us: int, mss: int) -> None:
        """The stack spaces it by the rate at which it sent the last."""
        rate = restart_rate(McpSettings(link_bps=100_000_000_000), rtt_us, mss)
        assert mss * 1_000_000 / rate == pytest.approx(rtt_us, rel=0.02)

    @given(mcp_settings, windows)
    def test_the_window_is_at_most_one_and_a_half_pipes_and_the_spare_segments(
        self, chosen: McpSettings, window: McpWindow
    ) -> None:
        pipe = chosen.link_rate * window.rtt / 1_000_000
        assert segments(chosen.link_rate, window.rtt_us, window.mss) <= 1.5 * pipe / window.mss + 3
        assert segments(0, window.rtt_us, window.mss) >= 1

    @given(mcp_settings, windows, behind_bytes, behind_bytes, st.data())
    def test_the_further_behind_the_faster(
        self, chosen: McpSettings, window: McpWindow, one: int, other: int, data: st.DataObject
    ) -> None:
        rate = data.draw(st.integers(1, chosen.link_rate))
        less, more = sorted((one, other))
        assert step(chosen, McpFlow(rate, less), window).rate <= step(chosen, McpFlow(rate, more), window).rate

    @given(windows, st.integers(1, 100_000), st.integers(1, 20))
    def test_marks_never_raise_it(self, window: McpWindow, rate: int, delivered: int) -> None:
        chosen = McpSettings(link_bps=LINK_BPS)
        flow = McpFlow(rate, 10 * MSS)
        clear, marked = (
            step(chosen, flow, McpWindow(window.expected, 1000, 0, window.rtt_us, delivered, marks, MSS))
            for marks in (0, delivered)
        )
        assert marked.rate <= clear.rate

    @given(st.integers(200_000, 10_000_000), st.integers(200, 20_000), st.floats(1 / 64, 0.5))
    def test_at_the_expected_rate_and_in_balance_it_stays(self, rate: int, rtt_us: int, kappa: float) -> None:
        chosen = McpSettings(link_bps=LINK_BPS, kappa=kappa)
        acked = rate * rtt_us // 1_000_000
        window = McpWindow(rate, rtt_us, acked, rtt_us, 10, 0, MSS)
        flow = start(chosen, window)
        assume(flow.rate == rate)
        assert step(chosen, flow, window).rate == pytest.approx(rate, rel=0.002)

    @given(st.integers(2, 20), st.integers(2_000_000, 20_000_000), st.integers(0, 6_000_000), st.integers(0, 8))
    def test_it_has_no_scale_of_its_own(self, scale: int, rate: int, behind: int, marked: int) -> None:
        """With link, rates and bytes multiplied by a number, the resulting rate is multiplied by it too."""
        small = McpSettings(link_bps=800_000_000)
        large = McpSettings(link_bps=800_000_000 * scale)
        found = [
            step(
                chosen,
                McpFlow(rate * by, behind * by),
                McpWindow(10_000_000 * by, 5_000, 40_000 * by, 5_000, 8, marked, 1_400 * by),
            ).rate
            for chosen, by in ((small, 1), (large, scale))
        ]
        assert found[1] == pytest.approx(found[0] * scale, rel=0.02)


class TestInTime:
    """Flows on a fluid link, beside a DCTCP fluid."""

    @hypothesis_settings(max_examples=60, deadline=None)
    @given(st.integers(40_000, 1_000_000), st.floats(0.02, 0.75), st.integers(0, 3), st.integers(100, 1_000))
    @example(40_000, 0.75, 3, 1_000)
    def test_a_flow_finishes_between_85_and_100_percent_of_its_deadline(
        self, deadline_us: int, share: float, others: int, base_us: int
    ) -> None:
        chosen = McpSettings(link_bps=LINK_BPS)
        flow = Deadline(int(share * chosen.link_rate * deadline_us / 1e6), deadline_us, 50_000)
        run(chosen, [flow], others=others, base_us=base_us, until_us=flow.start_us + deadline_us)
        assert flow.done_us is not None
        # Below 85 % only where two round trips, which are kept in reserve, are more than that part of the deadline.
        reserve_us = 2.5 * (base_us + 25 * MSS / chosen.link_rate * 1e6)
        assert min(0.85 * deadline_us, deadline_us - reserve_us - 2_000) <= flow.done_us <= deadline_us

    def test_what_flows_leave_the_background_gets(self) -> None:
        chosen = McpSettings(link_bps=LINK_BPS)
        flows = [Deadline(250_000, 50_000, 100_000), Deadline(250_000, 100_000, 100_000), Deadline(500_000, 300_000, 100_000)]
        outcome = run(chosen, flows, others=2, until_us=500_000)
        assert all(flow.done_us and flow.done_us <= flow.deadline_us for flow in flows)
        assert outcome.background >= 0.97 * (chosen.link_rate * 0.5 - sum(flow.size for flow in flows))

    def test_it_takes_no_more_than_it_needs_of_an_empty_link(self) -> None:
        chosen = McpSettings(link_bps=LINK_BPS)
        flow = Deadline(250_000, 100_000)
        outcome = run(chosen, [flow])
        needed = flow.size / 0.1
        assert max(outcome.rates[: len(outcome.rates) // 2]) <= 1.2 * needed
        assert flow.done_us >= 0.85 * flow.deadline_us


class TestTooMuch:
    """Where flows with deadlines need more than the link, and have its first queue for themselves. Receivers are as Linux."""

    CROWD = 10

    def flows(self, share: float) -> list[packet_link.Deadline]:
        """Five at once that need this share of the link each; the link would do for all of them one after the other."""
        times_ms = (60, 100, 150, 200, 300)
        return [packet_link.Deadline(int(12_500 * ms * share), ms * 1000, 150_000) for ms in times_ms]

    def run(self, flows: list[packet_link.Deadline], crowd: int) -> packet_link.Port:
        return packet_link.run(McpSettings(link_bps=LINK_BPS, crowd_packets=crowd), flows, others=5, together=2)

    @pytest.mark.parametrize("share", [0.25, 0.4])
    def test_the_first_queue_overruns_its_buffer_if_none_yields(self, share: float) -> None:
        assert self.run(self.flows(share), 0).drops[0] > 400

    @pytest.mark.parametrize("share", [0.25, 0.4])
    def test_it_does_not_if_they_yield(self, share: float) -> None:
        assert sum(self.run(self.flows(share), self.CROWD).drops) <= 10

    def test_those_that_can_wait_yield_to_those_that_cannot(self) -> None:
        flows, before = self.flows(0.25), self.flows(0.25)
        self.run(flows, self.CROWD)
        assert sum(flow.met for flow in flows) >= 4
        self.run(before, 0)
        assert sum(flow.met for flow in before) < 4

    def test_of_five_that_need_one_and_a_half_links_three_are_in_time(self) -> None:
        flows = self.flows(0.3)
        self.run(flows, self.CROWD)
        assert sum(flow.met for flow in flows) >= 3

    def test_later_deadlines_yield_to_earlier_ones_though_both_have_as_much_left_over(self) -> None:
        chosen = McpSettings(link_bps=LINK_BPS, crowd_packets=self.CROWD)
        rates = []
        for left_us in (20_000, 80_000):
            remaining = (left_us - 10_000) * LINK_BPS // 8_000_000  # either could stand still for 10 ms
            chance_us = time_of_chance(chosen, remaining, left_us)
            window = McpWindow(remaining * 1_000_000 // left_us, 1_000, 0, 2_000, 10, 10, MSS, 1_500, chance_us)
            rates.append(step(chosen, McpFlow(5_000_000, 10 * MSS), window).rate)
        assert rates[0] > rates[1]

    def test_flows_that_are_not_too_much_do_as_without(self) -> None:
        outcomes = []
        for crowd in (0, self.CROWD):
            flows = self.flows(0.15)
            self.run(flows, crowd)
            assert all(flow.met for flow in flows)
            outcomes.append([flow.done_us for flow in flows])
        assert outcomes[0] == outcomes[1]

    def test_a_hopeless_flow_waits_until_its_deadline_has_passed(self) -> None:
        chosen = McpSettings(link_bps=LINK_BPS, crowd_packets=self.CROWD)
        window = McpWindow(20_000_000, 1_000, 0, 1_000, 10, 10, MSS, 0, time_of_chance(chosen, 1_000_000, 50_000))
        assert step(chosen, McpFlow(10_000_000, 10 * MSS), window).rate == 100 * MSS


class TestHeldAcknowledgements:
    """Linux acknowledges every second segment, and a lone one after 40 ms: that is no queue."""

    CHOSEN = McpSettings(link_bps=LINK_BPS, crowd_packets=10)

    @pytest.mark.parametrize(("packets", "deadline_ms"), [(3, 20), (10, 50), (10, 200), (31, 50), (31, 200), (100, 200)])
    def test_flows_alone_on_the_path_are_in_time(self, packets: int, deadline_ms: int) -> None:
        flow = packet_link.Deadline(packets * packet_link.MSS, deadline_ms * 1_000)
        packet_link.run(self.CHOSEN, [flow], together=2)
        assert flow.met

    @given(rtts_us, rtts_us, st.integers(0, 12_500_000_000), st.integers(88, 9_000))
    def test_the_time_of_one_segment_is_no_queue_and_40_ms_at_most(
        self, rtt_us: int, least_us: int, rate: int, mss: int
    ) -> None:
        found, longer = queueing_us(rtt_us, least_us, rate, mss), max(rtt_us - least_us, 0)
        assert max(longer - 40_000, 0) <= found <= longer
        if rate:
            assert found >= longer - mss * 1_000_000 / rate

    @given(st.integers(100, 100_000), st.integers(50, 10_000), st.integers(225_000, 12_500_000), st.integers(88, 9_000))
    def test_two_segments_are_in_flight_in_any_crowd(self, queue_us: int, least_us: int, rate: int, mss: int) -> None:
        """A lone one would be acknowledged after 40 ms. The slowest rate here sends a segment every 40 ms."""
        rtt_us = least_us + queue_us
        window = McpWindow(1, 1_000, 0, rtt_us, 10, 0, mss, queueing_us(rtt_us, least_us, rate, mss), 10_000)
        assert in_flight(self.CHOSEN, McpFlow(rate, 0), window) >= 2


class TestTermination:
    """Each scheme gives up flows that cannot be in time, and no others."""

    HOPELESS = ((900_000, 60_000), (900_000, 60_000), (600_000, 60_000))

    @pytest.mark.parametrize("scheme", [Termination.BY_BACKLOG, Termination.BY_RATE])
    def test_it_gives_up_flows_that_are_too_much_together(self, scheme: Termination) -> None:
        chosen = McpSettings(link_bps=LINK_BPS, termination=scheme)
        flows = [Deadline(*each) for each in self.HOPELESS]
        run(chosen, flows, others=1, until_us=70_000)
        assert any(flow.given_up for flow in flows)

    def test_without_termination_hopeless_flows_are_not_given_up(self) -> None:
        flows = [Deadline(*each) for each in self.HOPELESS]
        run(McpSettings(link_bps=LINK_BPS), flows, others=1, until_us=70_000)
        assert not any(flow.given_up for flow in flows)

    @pytest.mark.parametrize("scheme", list(Termination))
    def test_flows_that_can_be_in_time_are_kept(self, scheme: Termination) -> None:
        chosen = McpSettings(link_bps=LINK_BPS, termination=scheme)
        flows = [Deadline(250_000, 100_000, 50_000), Deadline(400_000, 150_000, 50_000)]
        run(chosen, flows, others=2, until_us=250_000)
        assert all(flow.done_us and flow.done_us <= flow.deadline_us and not flow.given_up for flow in flows)


class TestSettings:
    """A setting out of range raises an error with its name and range."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [("link_bps", 0), ("marking_packets", 0), ("kappa", 0.9), ("aim", 1.5), ("multiple", 0), ("termination", 4)],
    )
    def test_what_is_out_of_range_is_refused_by_name(self, name: str, value: float) -> None:
        with pytest.raises(ValueError, match=name):
            McpSettings(**{name: value})
