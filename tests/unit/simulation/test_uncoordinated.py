"""simulation/uncoordinated.py: XCo's Figures 23, 24 and 27 with the policy's slots; the runs need ns-3."""

from __future__ import annotations

from collections import defaultdict

import pytest

from simulation.toolchain import why_missing
from simulation.uncoordinated import BUFFER_BYTES, case_text, figure_23, figure_24, figure_27, loss, planned
from topology.fabric import DirectedLink
from topology.paths import Routes
from topology.spanning_tree import compute

MISSING = why_missing()
needs_ns3 = pytest.mark.skipif(bool(MISSING), reason=MISSING)
MS = 1_000_000


class TestThePlan:
    """What the policy grants."""

    def test_no_link_is_granted_more_than_it_carries_in_any_two_slices(self) -> None:
        experiment = figure_27(2)
        slots, until_ns = planned(experiment, 8 * MS), 8 * MS
        fabric = experiment.fabric
        routes = Routes(fabric, compute(fabric))
        granted: dict[DirectedLink, int] = defaultdict(int)
        for slot in slots:
            if slot.end_ns <= until_ns:
                for link in routes.path(fabric.hosts[slot.node], fabric.hosts[slot.destination]):
                    granted[link] += slot.bytes
        assert granted
        for link, bytes_ in granted.items():
            assert bytes_ * 8e9 / until_ns <= fabric.capacity_bps(link)

    def test_as_many_senders_at_once_as_the_link_carries(self) -> None:
        first = [slot for slot in planned(figure_24(13), 10 * MS) if slot.start_ns == 0]
        assert 9 <= len(first) <= 10

    def test_every_flow_names_its_whole_way(self) -> None:
        lines = case_text(figure_27(2), 0, MS, []).splitlines()
        flows = [line.split() for line in lines if line.startswith("flow ")]
        assert len(flows) == 200 and all(flow[1] == "1" and len(flow) == 2 + 7 for flow in flows)
        assert f"buffer {BUFFER_BYTES}" in lines
        assert len([line for line in lines if line.startswith("link ")]) == 400 + 20 + 2


@needs_ns3
class TestLoss:
    """What is lost, by arithmetic and as simulated."""

    @pytest.mark.parametrize("senders", [1, 2, 5])
    def test_uncoordinated_senders_lose_all_but_one_links_worth(self, senders: int) -> None:
        found = loss(figure_23(senders), coordinated=False, from_ns=4 * MS, until_ns=24 * MS)
        assert found["loss"] == pytest.approx(1 - 1 / senders, abs=0.01)

    @pytest.mark.parametrize("senders", [10, 13])
    def test_a_shared_uplink_loses_what_is_more_than_it_carries(self, senders: int) -> None:
        found = loss(figure_24(senders), coordinated=False, from_ns=4 * MS, until_ns=14 * MS)
        assert found["loss"] == pytest.approx(1 - 10 / senders, abs=0.01)

    @pytest.mark.parametrize(("senders", "links"), [(5, 1), (1, 1)])
    def test_with_the_policys_slots_nothing_is_lost_and_the_link_is_full(self, senders: int, links: int) -> None:
        found = loss(figure_23(senders), coordinated=True, from_ns=4 * MS, until_ns=24 * MS)
        assert found["loss"] == 0 and found["goodput_bps"] >= 0.95 * links * 1e9

    def test_the_fabric_of_two_rows_loses_nothing_either(self) -> None:
        found = loss(figure_27(2), coordinated=True, from_ns=4 * MS, until_ns=10 * MS)
        assert found["loss"] == 0 and found["goodput_bps"] >= 0.94e10
