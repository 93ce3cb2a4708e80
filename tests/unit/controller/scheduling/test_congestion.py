"""Which links are found contended, and which pairs need permission."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config.settings import CoordinatorSettings
from controller.scheduling.congestion import Congestion
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, TreeNetwork, racks, star, trees

SECOND = 10**9
A, B, C, D = range(FIRST, FIRST + 4)
FULL = (95 * MBIT, 0)
HALF = (46 * MBIT, 0)


def on(network: TreeNetwork, **arguments: float) -> Congestion:
    congestion = Congestion(**arguments)  # type: ignore[arg-type] -- numbers by name
    congestion.set_network(network, now_ns=0)
    return congestion


class TestContending:
    """A link is contended when too much is to cross it, of more than one node."""

    def test_nothing_is_contended_at_first(self) -> None:
        congestion = on(star(4))
        assert not congestion.regulated(now_ns=0) and not congestion.contended()

    def test_two_senders_above_the_fraction_contend_the_receivers_link(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: HALF}, now_ns=0)
        assert not congestion.update(now_ns=0).contended
        congestion.report(C, {A: HALF}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("s", A)}

    def test_one_sender_at_full_speed_does_not(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: (100 * MBIT, 10**6)}, now_ns=0)
        assert not congestion.update(now_ns=0).contended

    def test_two_senders_of_different_receivers_do_not(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {D: FULL}, now_ns=0)
        assert not congestion.update(now_ns=0).contended

    def test_one_sender_that_floods_a_slower_link_does(self) -> None:
        congestion = on(star(3, rates={B: GBIT}))
        congestion.report(B, {A: (300 * MBIT, 0)}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("s", A)}

    def test_a_nodes_own_link_is_never_contended(self) -> None:
        network = star(3)
        congestion = on(network)
        network.set_rate(B, GBIT)
        congestion.report(B, {A: (50 * MBIT, 10**7), C: (50 * MBIT, 10**7)}, now_ns=0)
        assert not congestion.update(now_ns=0).contended

    def test_backlog_counts_as_what_would_be_sent(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: (30 * MBIT, 200_000)}, now_ns=0)
        congestion.report(C, {A: (30 * MBIT, 200_000)}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("s", A)}

    def test_small_flows_are_no_second_sender(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {A: (10_000, 0)}, now_ns=0)
        assert not congestion.update(now_ns=0).contended

    @pytest.mark.parametrize("reading", [{"load_bps": 95 * MBIT, "dropped": 0}, {"load_bps": 0, "dropped": 3}])
    def test_a_port_that_is_full_or_drops_counts_once_two_send_large_flows(self, reading: dict[str, int]) -> None:
        congestion = on(star(4))
        document = {"links": [{"source": "s", "target": A, **reading}, {"source": "x", "target": "y", **reading}]}
        congestion.ports(document, now_ns=0)
        assert not congestion.update(now_ns=0).contended
        congestion.report(B, {A: (5 * MBIT, 0)}, now_ns=0)
        congestion.report(C, {A: (5 * MBIT, 0)}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("s", A)}

    @pytest.mark.parametrize("reading", [{"load_bps": 95 * MBIT, "dropped": 0}, {"load_bps": 0, "dropped": 3}])
    def test_a_port_that_is_not_read_any_more_counts_no_longer(self, reading: dict[str, int]) -> None:
        congestion = on(star(4))
        congestion.ports({"links": [{"source": "s", "target": A, **reading}]}, now_ns=0)
        for node in (B, C):
            congestion.report(node, {A: (5 * MBIT, 0)}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("s", A)}
        congestion.ports({"links": [{"source": "s", "target": B, **reading}]}, now_ns=1)
        congestion.update(now_ns=1)
        congestion.update(now_ns=1 + congestion.quiet_ns)
        assert not congestion.contended()

    def test_an_uplink_is_contended_by_pairs_that_share_nothing_else(self) -> None:
        congestion = on(racks(2, 2, GBIT, GBIT))
        congestion.report(A, {C: (600 * MBIT, 0)}, now_ns=0)
        congestion.report(B, {D: (600 * MBIT, 0)}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("r0", "core"), ("core", "r1")}


class TestLosses:
    """Hosts' losses contend a link where no counter shows anything."""

    def losing(self, congestion: Congestion, *nodes: int, now_ns: int = 0, segments: int = 9) -> None:
        for node in nodes:
            congestion.report(node, {A: (5 * MBIT, 0)}, now_ns=now_ns)
            congestion.lost(node, [(A, segments, 30_000)], now_ns=now_ns)

    def test_two_senders_that_lose_contend_what_they_share(self) -> None:
        congestion = on(star(4))
        self.losing(congestion, B)
        assert not congestion.update(now_ns=0).contended
        self.losing(congestion, C)
        assert congestion.update(now_ns=0).contended == {("s", A)}
        assert congestion.losing(("s", A), now_ns=0)

    def test_they_need_not_lose_at_the_same_time(self) -> None:
        for apart_ns, contends in ((SECOND * 3 // 2, True), (SECOND * 5 // 2, False)):
            congestion = on(star(4))
            self.losing(congestion, B)
            self.losing(congestion, C, now_ns=apart_ns)
            assert bool(congestion.update(now_ns=apart_ns).contended) is contends

    def test_a_segment_now_and_then_is_no_loss(self) -> None:
        congestion = on(star(4))
        self.losing(congestion, B, C, segments=1)
        assert not congestion.update(now_ns=0).contended

    def test_one_loser_among_many_does_not(self) -> None:
        congestion = on(star(6))
        for node in (D, D + 1):
            congestion.report(node, {A: (5 * MBIT, 0)}, now_ns=0)
        self.losing(congestion, B)
        assert not congestion.update(now_ns=0).contended

    def test_losses_are_laid_to_the_link_that_is_contended_already(self) -> None:
        congestion = on(racks(2, 3, GBIT, 10 * GBIT))
        far = FIRST + 3
        for node in (A, B):
            congestion.report(node, {far: (600 * MBIT, 0)}, now_ns=0)
        assert congestion.update(now_ns=0).contended == {("r1", far)}
        for node in (A, B):
            congestion.lost(node, [(far, 9, 30_000)], now_ns=0)
        assert not congestion.update(now_ns=0).contended

    def test_it_is_released_when_nothing_was_lost_for_the_quiet_time(self) -> None:
        congestion = on(star(4), quiet_ns=2 * SECOND)
        self.losing(congestion, B, C)
        congestion.update(now_ns=0)
        for at in range(1, 9):
            self.losing(congestion, B, C, now_ns=at * SECOND, segments=0)
            congestion.update(now_ns=at * SECOND)
        assert not congestion.contended()


class TestRegulating:
    """All pairs across a contended link, and no others."""

    def test_all_members_need_permission_towards_the_receiver_and_it_needs_none(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {A: FULL}, now_ns=0)
        assert congestion.update(now_ns=0).contended
        regulated = congestion.regulated(now_ns=0)
        assert regulated == {node: frozenset({A}) for node in (B, C, D)}
        assert congestion.regulated(now_ns=1) is regulated

    def test_the_change_is_told_once(self) -> None:
        congestion = on(star(4))
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {A: FULL}, now_ns=0)
        congestion.update(now_ns=0)
        again = congestion.update(now_ns=1)
        assert not again.contended and not again.released

    def test_a_member_that_joins_is_regulated_at_once(self) -> None:
        congestion = on(star(3))
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {A: FULL}, now_ns=0)
        congestion.update(now_ns=0)
        congestion.set_network(star(4), now_ns=1)
        assert congestion.regulated(now_ns=1)[D] == {A}

    def test_a_member_that_left_is_regulated_no_more(self) -> None:
        network = star(4)
        congestion = on(network)
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {A: FULL}, now_ns=0)
        congestion.update(now_ns=0)
        network.remove(D)
        congestion.left(D, now_ns=1)
        assert congestion.regulated(now_ns=1).keys() == {B, C}

    def test_in_mode_always_every_pair_of_members_is_regulated(self) -> None:
        congestion = on(star(3), always=True)
        assert congestion.regulated(now_ns=0) == {A: {B, C}, B: {A, C}, C: {A, B}}

    @settings(deadline=None)
    @given(trees(), st.data())
    def test_regulated_pairs_are_those_whose_path_crosses_a_contended_link(
        self, network: TreeNetwork, data: st.DataObject
    ) -> None:
        congestion = on(network)
        nodes = network.nodes
        for x in nodes:
            others = st.sampled_from([y for y in nodes if y != x])
            flows = st.dictionaries(others, st.tuples(st.integers(0, 250 * MBIT), st.integers(0, 10**6)))
            congestion.report(x, data.draw(flows), now_ns=0)
        regulated = congestion.regulated(now_ns=0)
        contended = congestion.contended()
        expected = {x: {y for y in nodes if y != x and contended & set(network.path(x, y))} for x in nodes}
        assert regulated == {x: ys for x, ys in expected.items() if ys}

    @settings(deadline=None)
    @given(trees(), st.data())
    def test_reports_replace_one_another(self, network: TreeNetwork, data: st.DataObject) -> None:
        one, other = on(network), on(network)
        for x in network.nodes:
            others = st.sampled_from([y for y in network.nodes if y != x])
            flows = st.dictionaries(others, st.tuples(st.integers(0, 250 * MBIT), st.integers(0, 10**6)))
            one.report(x, data.draw(flows), now_ns=0)
            last = data.draw(flows)
            one.report(x, last, now_ns=0)
            other.report(x, last, now_ns=0)
        assert one.regulated(now_ns=0) == other.regulated(now_ns=0)


class TestReleasing:
    """Only after quiet, and without a break."""

    @staticmethod
    def _contended() -> Congestion:
        congestion = on(star(4))
        congestion.report(B, {A: FULL}, now_ns=0)
        congestion.report(C, {A: FULL}, now_ns=0)
        assert congestion.update(now_ns=0).contended
        assert congestion.next_event_ns() is None
        return congestion

    def test_a_link_is_released_when_it_was_calm_for_the_quiet_time(self) -> None:
        congestion = self._contended()
        congestion.report(B, {A: (20 * MBIT, 0)}, now_ns=SECOND)
        congestion.report(C, {A: (20 * MBIT, 0)}, now_ns=SECOND)
        congestion.update(now_ns=SECOND)
        assert congestion.next_event_ns() == 3 * SECOND
        assert congestion.regulated(now_ns=3 * SECOND - 1)
        assert congestion.update(now_ns=3 * SECOND).released == {("s", A)}
        assert not congestion.regulated(now_ns=3 * SECOND)
        assert congestion.next_event_ns() is None

    def test_one_sender_alone_is_calm_at_any_rate(self) -> None:
        congestion = self._contended()
        congestion.report(C, {}, now_ns=SECOND)
        congestion.update(now_ns=SECOND)
        assert congestion.update(now_ns=3 * SECOND).released

    def test_a_busy_moment_starts_the_quiet_time_anew(self) -> None:
        congestion = self._contended()
        congestion.report(C, {}, now_ns=SECOND)
        congestion.update(now_ns=SECOND)
        congestion.report(C, {A: FULL}, now_ns=2 * SECOND)
        congestion.update(now_ns=2 * SECOND)
        congestion.report(C, {}, now_ns=2 * SECOND + 5)
        congestion.update(now_ns=2 * SECOND + 5)
        assert not congestion.update(now_ns=4 * SECOND).released
        assert congestion.update(now_ns=4 * SECOND + 5).released

    def test_more_than_the_release_fraction_for_a_moment_starts_the_quiet_time_anew(self) -> None:
        congestion = self._contended()
        for now_ns, rate_bps in ((SECOND, 20 * MBIT), (2 * SECOND, 40 * MBIT), (2 * SECOND + 5, 20 * MBIT)):
            congestion.report(B, {A: (rate_bps, 0)}, now_ns=now_ns)
            congestion.report(C, {A: (rate_bps, 0)}, now_ns=now_ns)
            congestion.update(now_ns=now_ns)
        assert not congestion.update(now_ns=4 * SECOND).released
        assert congestion.update(now_ns=4 * SECOND + 5).released

    def test_between_the_fractions_a_contended_link_stays_and_another_does_not_become_so(self) -> None:
        flows = {A: (40 * MBIT, 0)}
        congestion, fresh = self._contended(), on(star(4))
        for one in (congestion, fresh):
            one.report(B, flows, now_ns=SECOND)
            one.report(C, flows, now_ns=SECOND)
            one.update(now_ns=SECOND)
            one.update(now_ns=9 * SECOND)
        assert congestion.contended() and not fresh.contended()

    def test_flows_that_wait_for_their_slots_keep_the_link_contended(self) -> None:
        congestion = self._contended()
        for node in (B, C):
            congestion.report(node, {A: (30 * MBIT, 500_000)}, now_ns=SECOND)
        congestion.update(now_ns=SECOND)
        assert not congestion.update(now_ns=9 * SECOND).released

    @pytest.mark.parametrize(("rate_bps", "waiting", "released"), [
        (5 * MBIT, 1_500_000, False),  # they send little because they are given little
        (20 * MBIT, 1_500_000, True),  # what waits is sent within the period
        (MBIT, 60_000, True),  # what waits is sent at once
    ])  # fmt: skip
    def test_a_link_across_which_nodes_starve_is_not_released(self, rate_bps: int, waiting: int, released: bool) -> None:
        """A coordinator without a processor for a second or two freed hosts for which megabytes waited, and they collided."""
        congestion = on(star(4), drain_ns=SECOND)
        for now_ns, flow in ((0, FULL), (SECOND, (rate_bps, waiting))):
            for node in (B, C):
                congestion.report(node, {A: flow}, now_ns=now_ns)
            congestion.update(now_ns=now_ns)
        assert bool(congestion.update(now_ns=3 * SECOND).released) is released

    def test_a_changed_fabric_keeps_a_link_that_is_still_there_contended(self) -> None:
        congestion = self._contended()
        congestion.set_network(star(4), now_ns=1)
        assert congestion.regulated(now_ns=1).keys() == {B, C, D}

    def test_a_link_that_is_gone_regulates_nobody(self) -> None:
        congestion = self._contended()
        congestion.set_network(racks(2, 2), now_ns=1)
        change = congestion.update(now_ns=1)
        assert change.released == {("s", A)} and not congestion.regulated(now_ns=1)


class TestSettings:
    """The coordinator's settings are its own."""

    SETTINGS = CoordinatorSettings(interface="c0", attachment="s1:1", key_file=Path("key"), store="unix:///x")

    def test_the_fields_are_taken_over(self) -> None:
        changed = dataclasses.replace(self.SETTINGS, mode="always", quiet_ns=7, contend_fraction=0.8)
        congestion = Congestion.from_settings(changed)
        assert (congestion.always, congestion.quiet_ns, congestion.contend_fraction) == (True, 7, 0.8)

    def test_an_unknown_mode_is_refused_by_name(self) -> None:
        with pytest.raises(ValueError, match="mode must be"):
            Congestion.from_settings(dataclasses.replace(self.SETTINGS, mode="sometimes"))

    @pytest.mark.parametrize("arguments", [{"release_fraction": 0.95}, {"contend_fraction": 0}, {"quiet_ns": -1}])
    def test_a_number_out_of_range_is_refused_by_name(self, arguments: dict[str, float]) -> None:
        with pytest.raises(ValueError, match=next(iter(arguments))):
            Congestion(**arguments)  # type: ignore[arg-type] -- numbers by name
