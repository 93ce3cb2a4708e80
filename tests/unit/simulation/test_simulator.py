"""simulation/program/ in ns-3, compared with formulas and with the models that hosts' programs follow. Needs ns-3."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.priorities.completion_model import Thresholds
from controller.switch_queues.model import SwitchQueues, each_queue
from simulation.cases import Case
from simulation.fabric import FRAME, HEADERS, SEGMENT, SIZES, SpineLeaf
from simulation.flows import Flow, Mixture
from simulation.results import ended
from simulation.run import RunError, lines_of, simulate
from simulation.schemes import SCHEMES, Settings, case_text, program_settings
from simulation.toolchain import why_missing
from simulation.validation import PacketClass, cobham_ns, dctcp_queue, priority_queue

MISSING = why_missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
SMALL = SIZES["small"]
NO_CUTS = Thresholds((), ())


def run(scheme: str, flows: tuple[Flow, ...], cuts: Thresholds = NO_CUTS, **more: int) -> dict[int, int]:
    """How long each flow took, in ns; -1: it was given up."""
    given_settings = program_settings(scheme, SMALL, cuts, Settings(), 1) | more
    found = ended(flows, lines_of("fabric_run", case_text(given_settings, flows)), SMALL)
    return {number: one.took_ns if one.finished else -1 for number, one in enumerate(found)}


class TestThePort:
    """Eight strict priorities."""

    def test_each_class_waits_as_cobham_says(self) -> None:
        classes = [PacketClass(0, 300_000, 1000), PacketClass(3, 300_000, 500), PacketClass(7, 250_000, 1500)]
        rate = 10_000_000_000
        for found, expected in zip(priority_queue(classes, rate, 400_000, 1), cobham_ns(classes, rate), strict=True):
            assert found == pytest.approx(expected, rel=0.05)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.integers(0, 7), min_size=1, max_size=120), st.integers(1, 60), st.integers(0, 8))
    def test_the_buffer_is_divided_as_in_batons_switches(self, burst: list[int], buffer: int, reserved: int) -> None:
        queues = SwitchQueues(buffer_packets=buffer + reserved, reserved=each_queue((reserved, 0)))
        lengths, taken = [0] * 8, []
        for queue in burst:
            taken.append(int(queues.admits(queue, lengths)))
            lengths[queue] += taken[-1]
        shares = " ".join(str(round(256 * share)) for share in queues.share or ())
        division = f"division {queues.buffer_packets * FRAME} {shares} {' '.join(str(n * FRAME) for n in queues.reserved)}"
        assert lines_of("port_run", f"{division}\nburst {' '.join(map(str, burst))}\n") == [{"taken": taken}]

    def test_dctcp_keeps_the_queue_about_its_threshold_and_the_link_busy(self) -> None:
        found = dctcp_queue()
        assert 0.6 * 65 <= found["p50_packets"] <= 65 + 15 and found["p99_packets"] <= 65 + 20
        assert found["busy"] > 0.99


class TestOneFlow:
    """Alone on the fabric."""

    @pytest.mark.parametrize("scheme", SCHEMES)
    @pytest.mark.parametrize("size", [1, SEGMENT, 50_000])
    def test_takes_the_ideal_time_by_every_scheme(self, scheme: str, size: int) -> None:
        for target in (1, 7):
            (took,) = run(scheme, (Flow(2_000_000, 0, target, size, 3),)).values()
            ideal = SMALL.alone_ns(0, target, size)
            # TCP's option of selective acknowledgements, and times in whole nanoseconds
            assert ideal <= took <= ideal * 1.001 + 20

    def test_with_a_deadline_ends_just_in_time_under_karuna(self) -> None:
        deadline = 5_000_000
        (took,) = run("karuna", (Flow(2_000_000, 0, 7, 1_000_000, 1, deadline),)).values()
        assert 0.8 * deadline < took <= deadline

    def test_that_hears_that_its_deadline_is_refused_goes_as_fast_as_it_can_from_then_on(self) -> None:
        deadline, heard = 50_000_000, 1_000_000
        (took,) = run("karuna", (Flow(2_000_000, 0, 7, 10_000_000, 1, deadline, heard),)).values()
        assert SMALL.alone_ns(0, 7, 10_000_000) + heard / 2 < took < 0.5 * deadline

    def test_that_is_refused_is_behind_one_that_is_admitted(self) -> None:
        admitted = Flow(2_000_000, 1, 7, 5_000_000, 1, 6_000_000)
        took = run("karuna", (replace(admitted, source=0, refused_ns=100_000), admitted))
        assert took[1] <= 6_000_000 < took[0]

    @pytest.mark.parametrize("size", [8_000, 60_000, 180_000])
    @pytest.mark.parametrize("deadline_ns", [20_000_000, 80_000_000])
    def test_with_a_deadline_is_in_time_though_its_receiver_acknowledges_every_second_segment(
        self, size: int, deadline_ns: int
    ) -> None:
        flow = Flow(2_000_000, 0, 7, size, 1, deadline_ns)
        gigabit = {"host_bps": 1_000_000_000, "uplink_bps": 4_000_000_000, "mark_host": 20 * 1500, "crowd": 10}
        assert 0 < run("karuna", (flow,), ack_segments=2, **gigabit)[0] <= deadline_ns

    def test_that_no_link_could_save_is_given_up_where_asked(self) -> None:
        flow = Flow(2_000_000, 0, 7, 10_000_000, 1, 2_000_000)
        assert run("karuna", (flow,), termination=2) == {0: -1}
        assert run("karuna", (flow,))[0] > 2_000_000


class TestAdmission:
    """A flow whose deadline is refused, and admitted later."""

    ASKED = Flow(2_000_000, 0, 7, 1_000_000, 1, 10_000_000)
    REFUSED = replace(ASKED, refused_ns=1)

    def test_while_it_is_refused_it_goes_as_fast_as_it_can_and_by_its_deadline_before_and_after(self) -> None:
        """MCP ends it just in time."""
        asked, refused, later = (run("karuna", (one,))[0] for one in (self.ASKED, self.REFUSED, self.admitted(300_000)))
        assert refused < 4_000_000 and 0.8 * 10_000_000 < asked < 10_000_000
        assert 0.8 * 10_000_000 < later < 10_000_000

    def test_then_it_goes_before_flows_without_a_deadline(self) -> None:
        cuts, others = Thresholds((1 << 40,) * 6, (1 << 40,) * 6), [Flow(2_000_000, at, 7, 20_000_000, 3) for at in range(1, 7)]
        large = (replace(one, size_bytes=4_000_000) for one in (self.REFUSED, self.admitted(300_000)))
        taken = [run("karuna", (one, *others), cuts)[0] for one in large]
        assert taken[1] < 10_000_000 < taken[0]

    def admitted(self, after_ns: int) -> Flow:
        return replace(self.REFUSED, admitted_ns=after_ns)


class TestOrder:
    """Who goes first at a shared port: two hosts send to a third."""

    LONG, SHORT = Flow(2_000_000, 0, 7, 4_000_000, 3), Flow(3_000_000, 1, 7, 200_000, 3)

    def test_short_flows_pass_long_ones_under_pfabric_and_pias_and_not_under_dctcp(self) -> None:
        alone = SMALL.alone_ns(1, 7, 200_000)
        flows, cuts = (self.LONG, self.SHORT), Thresholds((300_000,) * 7, (300_000,) * 7)
        assert run("pfabric", flows)[1] < alone * 1.05
        assert run("pias", flows, cuts)[1] < alone * 1.6
        assert run("dctcp", flows)[1] > alone * 1.6

    def test_a_flow_of_known_size_is_in_its_band_from_the_first_byte(self) -> None:
        cuts = Thresholds((1_000_000,) * 6, (1 << 40,) * 6)
        known = Flow(2_000_000, 0, 7, 4_000_000, 2)
        second = Flow(3_000_000, 1, 7, 200_000, 3)
        assert run("karuna", (known, second), cuts)[1] < SMALL.alone_ns(1, 7, 200_000) * 1.6

    def test_a_deadline_goes_before_any_size_under_edf(self) -> None:
        small, due = Flow(2_000_000, 0, 7, 500_000, 3), Flow(2_000_000, 1, 7, 2_000_000, 1, 2_100_000)
        assert run("pfabric_edf", (small, due))[1] < 2_100_000 < run("pfabric", (small, due))[1] + 200_000


class TestUplinks:
    """A port between switches, which is faster."""

    @pytest.mark.parametrize("scheme", ["dctcp", "karuna"])
    def test_marks_flows_that_meet_there_before_it_drops(self, scheme: str) -> None:
        two = SpineLeaf(leaves=2, spines=1, hosts_per_leaf=8)
        flows = tuple(Flow(2_000_000, at, 8 + at, 5_000_000, 3) for at in range(8))
        *_, close = lines_of("fabric_run", case_text(program_settings(scheme, two, NO_CUTS, Settings(), 1), flows))
        assert close["marks"] > 1000 and close["drops"] < close["marks"] / 20


class TestHosts:
    """A sender's own port."""

    @pytest.mark.parametrize("scheme", ["dctcp", "karuna"])
    def test_drops_nothing_however_many_flows_start_at_once(self, scheme: str) -> None:
        flows = tuple(Flow(2_000_000, 0, 1 + number % 7, 100_000, 3) for number in range(42))
        *_, close = lines_of("fabric_run", case_text(program_settings(scheme, SMALL, NO_CUTS, Settings(), 1), flows))
        assert close["drops"] == 0


class TestMany:
    """A short case under each scheme."""

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_every_flow_ends_none_faster_than_alone(self, scheme: str) -> None:
        mixture = Mixture(shares=(0.3, 0.3, 0.4))
        case = Case(scheme, "facebook_hadoop", 0.6, 300, fabric=SMALL, mixture=mixture)
        told: list[float] = []
        found = simulate(case, told.append)
        assert found["without_deadline"]["all"]["unfinished"] == 0 and found["deadlines"]["flows"] > 50
        assert found["without_deadline"]["all"]["slowdown_mean"] >= 1
        again = simulate(case)
        assert again["by_type"] == found["by_type"]  # the same in each run

    def test_flows_within_the_margins_do_not_count(self) -> None:
        mixture = Mixture(shares=(0.3, 0.3, 0.4))
        found = simulate(Case("dctcp", "facebook_hadoop", 0.6, 100, fabric=SMALL, mixture=mixture, margin=0.2))
        assert found["without_deadline"]["all"]["flows"] + found["deadlines"]["flows"] == 60

    def test_a_wrong_line_is_named(self) -> None:
        with pytest.raises(RunError, match="line 2: key colour"):
            lines_of("fabric_run", "scheme dctcp\ncolour 1\n")
        with pytest.raises(RunError, match="line 1: a flow joins"):
            lines_of("fabric_run", "flow 0 1 1 10 3 0 0 0\n")


def test_frames_are_those_of_the_program() -> None:
    assert (FRAME, HEADERS) == (1502, 42)
