"""simulation/fabric.py, flows.py, schemes.py: what a case consists of."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.switch_queues.model import SwitchQueues
from emulation import cdfs
from simulation.cases import Case, grid
from simulation.fabric import FRAME, SEGMENT, SIZES, SpineLeaf
from simulation.flows import PLAIN, Mixture, poisson
from simulation.schemes import SCHEMES, Settings, buffer_bytes, case_text, marking_packets, program_settings, thresholds

SMALL = SIZES["small"]


class TestTheFabric:
    """Times on idle links."""

    def test_a_packet_to_a_neighbour_is_stored_and_forwarded_once(self) -> None:
        assert SMALL.alone_ns(0, 1, SEGMENT) == 2 * (1201 + 20_000)  # 1502 bytes at 10 Gb/s

    def test_a_packet_to_another_leaf_crosses_two_more_links(self) -> None:
        assert SMALL.alone_ns(0, 7, SEGMENT) - SMALL.alone_ns(0, 1, SEGMENT) == 2 * (600 + 200)  # at 20 Gb/s

    @given(st.integers(1, 10**8), st.integers(1, 10**6))
    def test_more_bytes_never_take_less_than_the_link_needs_for_them(self, size: int, more: int) -> None:
        took = SMALL.alone_ns(0, 1, size + more) - SMALL.alone_ns(0, 1, size)
        assert took >= more * 8 // 10 - SEGMENT * 8 // 10 - 1  # the last packet's way may be shorter

    def test_the_pipe_covers_the_round_trip(self) -> None:
        assert (SMALL.pipe_packets - 1) * FRAME < SMALL.rtt_ns * SMALL.host_bps / 8e9 <= SMALL.pipe_packets * FRAME

    @pytest.mark.parametrize("name", SIZES)
    def test_uplinks_of_the_ready_made_fabrics_carry_what_their_hosts_send(self, name: str) -> None:
        fabric = SIZES[name]
        assert fabric.spines * fabric.uplink_bps == fabric.hosts_per_leaf * fabric.host_bps

    @pytest.mark.parametrize("wrong", [{"leaves": 0}, {"spines": 0}, {"host_bps": 1}, {"host_delay_ns": -1}])
    def test_a_wrong_field_is_named(self, wrong: dict[str, int]) -> None:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            SpineLeaf(**wrong)


class TestFlows:
    """Poisson arrivals at an exact load."""

    @given(st.sampled_from(cdfs.names()), st.floats(0.1, 0.9), st.integers(0, 99))
    def test_the_load_holds_and_nobody_sends_to_itself(self, workload: str, load: float, seed: int) -> None:
        flows = poisson(cdfs.load(workload), SMALL, load=load, count=200, mixture=PLAIN, seed=seed)
        frames = sum(flow.size_bytes + 42 * math.ceil(flow.size_bytes / 1460) for flow in flows)
        length_s = frames * 8 / (load * SMALL.host_bps * SMALL.hosts)
        assert all(flow.source != flow.target and flow.start_ns <= length_s * 1e9 for flow in flows)
        assert flows[-1].start_ns > length_s * 1e9 * 0.9  # the last of 200 uniform starts
        assert {flow.flow_type for flow in flows} == {3}

    def test_deadlines_leave_the_flow_its_slack_and_large_flows_have_none(self) -> None:
        mixture = Mixture(shares=(1, 0, 0), mean_ns=1_000_000, slack=2, most_deadline_bytes=500_000)
        flows = poisson(cdfs.load("web_search"), SMALL, load=0.5, count=500, mixture=mixture, seed=1)
        for flow in flows:
            if flow.size_bytes > 500_000:
                assert (flow.flow_type, flow.deadline_ns) == (2, 0)
            else:
                assert flow.deadline_ns >= max(500_000, 2 * SMALL.alone_ns(flow.source, flow.target, flow.size_bytes))

    @given(st.floats(0.1, 1), st.integers(0, 99))
    def test_what_deadlines_reserve_never_exceeds_a_senders_share(self, share: float, seed: int) -> None:
        mixture = Mixture(shares=(1, 0, 0), least_ns=5_000_000, slack=1e-9, most_deadline_bytes=1 << 40, reserved=share)
        flows = poisson(cdfs.load("web_search"), SMALL, load=0.9, count=200, mixture=mixture, seed=seed)
        due = [flow for flow in flows if flow.deadline_ns]
        assert due and {flow.flow_type for flow in flows} <= {1, 2, 3}
        for flow in due:
            needed = sum(
                other.size_bytes * 8e9 / other.deadline_ns
                for other in due
                if other.source == flow.source and other.start_ns <= flow.start_ns < other.start_ns + other.deadline_ns
            )
            assert flow.deadline_ns >= 5_000_000 and needed <= share * SMALL.host_bps * 1.001

    def test_the_same_seed_gives_the_same_flows_to_each_scheme(self) -> None:
        sizes = cdfs.load("web_search")
        assert len({Case(scheme, "web_search", 0.5, 50).scheduled(sizes) for scheme in SCHEMES}) == 1

    @pytest.mark.parametrize(("name", "value"), [("load", 1.0), ("count", 0)])
    def test_a_wrong_value_is_named(self, name: str, value: float) -> None:
        with pytest.raises(ValueError, match=name):
            poisson(cdfs.load("web_search"), SMALL, **{"load": 0.5, "count": 1, name: value}, mixture=PLAIN, seed=1)  # type: ignore[arg-type]


class TestSchemes:
    """Settings and thresholds."""

    def test_thresholds_are_those_of_the_solver_for_the_bands_of_each_scheme(self) -> None:
        flows = Case("karuna", "web_search", 0.8, 400).scheduled(cdfs.load("web_search"))
        assert thresholds("karuna", flows, 0.8).bands == 7
        assert thresholds("pias", flows, 0.8).bands == 8
        assert thresholds("dctcp", flows, 0.8).bands == thresholds("pfabric", flows, 0.8).bands == 1

    def test_only_flows_with_deadlines_need_no_thresholds(self) -> None:
        mixture = Mixture(shares=(1, 0, 0), most_deadline_bytes=1 << 40)
        flows = Case("karuna", "web_search", 0.8, 20, mixture=mixture).scheduled(cdfs.load("web_search"))
        assert thresholds("karuna", flows, 0.8).bands == 1

    @pytest.mark.parametrize(("rate", "packets"), [(10**9, 20), (10**10, 65), (4 * 10**10, 250)])
    def test_ports_mark_from_karunas_lengths_on(self, rate: int, packets: int) -> None:
        assert marking_packets(rate) == packets

    @pytest.mark.parametrize("rate", [10**9, 10**10, 4 * 10**10, 10**11])
    def test_a_ports_buffer_is_longer_than_the_queue_from_which_it_marks(self, rate: int) -> None:
        assert buffer_bytes(rate) > marking_packets(rate) * 1500

    def test_a_buffer_in_which_a_port_could_never_mark_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"buffer_bytes is 360000; a port here marks from 375000 bytes on"):
            program_settings("dctcp", SpineLeaf(), thresholds("dctcp", (), 0.5), Settings(buffer_bytes=360_000), 1)

    def test_a_port_of_pfabric_holds_two_pipes(self) -> None:
        cuts = thresholds("pfabric", (), 0.5)
        found = program_settings("pfabric", SMALL, cuts, Settings(), 1)
        assert found["buffer"] == 2 * SMALL.pipe_packets * FRAME
        assert found["pfabric_window"] == SMALL.pipe_packets

    @pytest.mark.parametrize("scheme", ["pfabric", "pfabric_edf"])
    def test_a_port_of_pfabric_may_be_smaller_than_what_karunas_reserve(self, scheme: str) -> None:
        slow = SpineLeaf(leaves=1, spines=0, hosts_per_leaf=4, host_bps=100_000_000)
        found = program_settings(scheme, slow, thresholds(scheme, (), 0.5), Settings(), 1)
        assert found["buffer"] == 2 * slow.pipe_packets * FRAME < SwitchQueues().reserved[0] * FRAME

    def test_an_unknown_scheme_is_named(self) -> None:
        with pytest.raises(ValueError, match="edf"):
            Case("edf", "web_search", 0.5, 1)

    def test_each_setting_is_a_line_and_each_flow_too(self) -> None:
        case = Case("karuna", "web_search", 0.5, 30, fabric=SMALL)
        flows = case.scheduled(cdfs.load("web_search"))
        text, cuts = case.program_input(flows)
        lines = text.splitlines()
        assert f"beta {' '.join(map(str, cuts.beta))}" in lines
        assert sum(line.startswith("flow ") for line in lines) == 30
        assert "beta" not in case_text({"beta": ()}, ())


class TestCases:
    """Names of results' files."""

    def test_cases_that_differ_have_different_keys(self) -> None:
        cases = grid(SCHEMES, ("web_search", "data_mining"), (0.5, 0.8), (1, 2), flows=10)
        cases.append(Case("dctcp", "web_search", 0.5, 10, fabric=SMALL))
        cases.append(Case("dctcp", "web_search", 0.5, 10, settings=Settings(spray=True)))
        assert len({case.key for case in cases}) == len(cases) == 2 * 2 * 2 * len(SCHEMES) + 2

    def test_a_case_that_is_asked_for_twice_is_one(self) -> None:
        """Or it would be simulated twice, and count as two seeds."""
        cases = grid(("dctcp", "dctcp"), ("web_search", "web_search"), (0.3, 0.30), (1, 2, 1), flows=10)
        assert [case.seed for case in cases] == [1, 2]

    def test_an_equal_case_has_the_same_key(self) -> None:
        assert Case("dctcp", "web_search", 0.5, 10).key == Case("dctcp", "web_search", 0.5, 10).key
