"""The benchmark of the schedule alone: its fabrics, its hosts, its optimum, and what comes out of a small run."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from bench.computing.scale import HEADROOM, Case, _Slots, run
from bench.computing.scale_alone import Calls, Turn
from bench.computing.scale_hosts import Hosts
from bench.computing.scale_network import SHAPES, Pairs, ScaleNetwork, half_to_half
from bench.computing.scale_optimum import Alone, admissible_bps, optimum_bps
from bench.computing.scale_schedulers import EMPTY, SCHEDULERS
from cli.main import main
from controller.policies.compiled.batches import SLOT
from controller.policies.compiled.steps import CompiledSteps

GBIT = 10**9
MS = 1_000_000


def network(shape: str, hosts: int) -> ScaleNetwork:
    return ScaleNetwork(SHAPES[shape](hosts), hosts)


class TestTheFabrics:
    """What sends where."""

    @pytest.mark.parametrize(("shape", "hops"), [("racks", 4), ("rows", 6), ("leaf-spine", 4)])
    def test_a_path_crosses_the_levels_of_its_shape(self, shape: str, hops: int) -> None:
        assert len(network(shape, 400).path(0, 399)) == hops

    def test_every_receiver_has_as_many_senders_and_nobody_a_destination_twice(self) -> None:
        pairs = half_to_half(60, 7, seed=3)
        assert set(Counter(pairs.destinations.tolist()).values()) == {7}
        assert len(set(zip(pairs.nodes.tolist(), pairs.destinations.tolist(), strict=True))) == len(pairs) == 210

    def test_more_destinations_than_there_are_are_refused(self) -> None:
        with pytest.raises(ValueError, match="1 to 20"):
            half_to_half(40, 21, seed=1)


class TestTheOptimum:
    """The linear programme."""

    @pytest.mark.parametrize(("shape", "hosts", "gbps"), [("racks", 80, 20), ("rows", 400, 10), ("rows", 800, 20)])
    def test_it_fills_what_is_oversubscribed(self, shape: str, hosts: int, gbps: int) -> None:
        assert optimum_bps(network(shape, hosts), half_to_half(hosts, 2, 1)) == pytest.approx(gbps * GBIT)

    def test_a_pair_is_granted_no_more_than_it_wants(self) -> None:
        pairs = Pairs(np.array([0, 1]), np.array([2, 2]))
        assert optimum_bps(network("racks", 20), pairs, np.array([1e8, 2e8])) == pytest.approx(3e8)

    def test_an_admissible_demand_can_be_granted_whole_and_a_larger_one_cannot(self) -> None:
        fabric, pairs = network("rows", 400), half_to_half(400, 3, 1)
        wanted = np.full(len(pairs), admissible_bps(fabric, pairs, 1.0))
        assert optimum_bps(fabric, pairs, wanted) == pytest.approx(wanted.sum())
        assert optimum_bps(fabric, pairs, wanted * 1.1) == pytest.approx(wanted.sum())


class TestWhatALinkCanPassOnAlone:
    """The bound of a schedule that cannot send what has not come yet."""

    pairs = Pairs(np.array([0, 1]), np.array([2, 2]))

    def optimum(self, ticks: list[list[int]]) -> float:
        """Of the second pair's link and the destination's, in Gbit/s, with bytes that come at each tick of 1 ms; half of each
        capacity may be granted."""
        fabric = network("racks", 20)
        alone, came = Alone(fabric, self.pairs, 0.5, np.zeros(2, dtype=np.int64)), np.zeros(2, dtype=np.int64)
        for tick in ticks:
            came += tick
            alone.take(came, MS)
        wanted = came * 8e9 / (len(ticks) * MS)
        return optimum_bps(fabric, self.pairs, wanted, 0.5, alone.passed_bps(len(ticks) * MS)) / GBIT

    def test_what_comes_at_once_is_sent_as_the_links_allow(self) -> None:
        assert self.optimum([[0, 125_000], [0, 0]]) == pytest.approx(0.5)
        assert self.optimum([[125_000, 125_000], [0, 0]]) == pytest.approx(0.5)

    def test_what_comes_late_is_not_sent_before(self) -> None:
        assert self.optimum([[0, 0], [0, 125_000]]) == pytest.approx(0.25)

    def test_what_waited_at_the_beginning_can_be_sent(self) -> None:
        alone = Alone(network("racks", 20), self.pairs, 1.0, np.array([0, 10**6]))
        alone.take(np.zeros(2, dtype=np.int64), MS)
        assert alone.passed_bps(MS).max() == pytest.approx(GBIT)


class TestHosts:
    """What they say, and what they keep."""

    @staticmethod
    def slot(number: int, node: int, destination: int, start_ns: int, size: int = 1000) -> np.ndarray:
        return np.array([(number, node, destination, start_ns, start_ns + MS, size, 0, GBIT)], dtype=SLOT)

    def hosts(self, demand: float | None) -> Hosts:
        return Hosts(4, Pairs(np.array([0, 0, 1]), np.array([2, 3, 2])), demand, 1000, seed=1)

    def test_saturated_hosts_speak_once_and_give_nothing_back(self) -> None:
        hosts = self.hosts(None)
        said = hosts.say(MS, 0)
        assert said.nodes.tolist() == [0, 1] and said.offsets.tolist() == [0, 2, 3] and said.destinations.tolist() == [2, 3, 2]
        hosts.hear(self.slot(1, 0, 2, 0), np.zeros(0, dtype=SLOT))
        later = hosts.say(MS, MS)
        assert not len(later.nodes) and not len(later.returned) and hosts.sent_bytes == 1000

    def test_a_slot_is_given_back_when_its_queue_is_empty_with_what_is_left_of_it(self) -> None:
        hosts = self.hosts(0)
        hosts.say(MS, 0)
        hosts.waiting_bytes[0] = 250
        hosts.hear(self.slot(1, 0, 2, 0), np.zeros(0, dtype=SLOT))
        assert not len(hosts.say(MS, MS // 5).returned)
        said = hosts.say(MS, MS // 4)
        assert said.returned["slot"].tolist() == [1] and said.unspent_bytes.tolist() == [750]
        assert said.backlog_bytes.tolist() == [0] and hosts.sent_bytes == 250

    def test_a_slot_that_is_granted_again_counts_as_it_is_now_and_a_revoked_one_not(self) -> None:
        hosts = self.hosts(None)
        hosts.say(MS, 0)
        hosts.hear(np.concatenate((self.slot(1, 0, 2, 5 * MS), self.slot(2, 1, 2, 0))), np.zeros(0, dtype=SLOT))
        hosts.hear(self.slot(1, 0, 2, 0), self.slot(2, 1, 2, 0))
        hosts.say(MS, MS)
        assert hosts.sent_bytes == 1000

    def test_who_tells_bytes_gives_no_slot_back_that_is_used_up_and_tells_more_when_more_comes(self) -> None:
        hosts = Hosts(4, Pairs(np.array([0]), np.array([2])), 0.0, 1000, seed=1, counted=True)
        hosts.waiting_bytes[0] = 1500
        hosts.hear(np.concatenate((self.slot(1, 0, 2, 0), self.slot(2, 0, 2, MS))), np.zeros(0, dtype=SLOT))
        hosts.wait(MS, MS)
        said = hosts.say(MS, 2 * MS)
        assert said.returned["slot"].tolist() == [2] and said.unspent_bytes.tolist() == [500]
        hosts.waiting_bytes[0] = 1000
        hosts.hear(self.slot(3, 0, 2, 2 * MS), np.zeros(0, dtype=SLOT))
        assert not len(hosts.say(MS, 3 * MS).returned)

    def test_demands_come_as_often_and_as_large_as_wanted(self) -> None:
        hosts = self.hosts(1e6)
        for tick in range(1, 2001):
            hosts.say(10 * MS, tick * 10 * MS)
        assert hosts.came_bytes.sum() == pytest.approx(3 * 1e6 * 20, rel=0.05)
        assert (hosts.waiting_bytes == hosts.came_bytes).all()


class TestHostsWithRates:
    """Slots without a count of bytes."""

    @staticmethod
    def rate(number: int, node: int, start_ns: int, rate_bps: int, end_ns: int = 100 * MS) -> np.ndarray:
        return np.array([(number, node, 2, start_ns, end_ns, 0, rate_bps, rate_bps)], dtype=SLOT)

    def hosts(self, demand: float | None) -> Hosts:
        return Hosts(4, Pairs(np.array([0, 1]), np.array([2, 2])), demand, 1000, seed=1)

    def pass_ticks(self, hosts: Hosts, begin: int, end: int) -> None:
        for tick in range(begin, end):
            hosts.say(MS, tick * MS)

    def test_a_rate_carries_until_it_ends_and_its_successor_takes_its_place(self) -> None:
        hosts = self.hosts(None)
        hosts.say(MS, 0)
        hosts.hear(self.rate(1, 0, 0, 8_000_000), EMPTY)  # 1000 bytes/ms
        self.pass_ticks(hosts, 1, 6)
        assert hosts.sent_bytes == 5000
        hosts.hear(self.rate(2, 0, 5 * MS + MS // 2, 16_000_000, 8 * MS), EMPTY)
        self.pass_ticks(hosts, 6, 20)
        assert hosts.sent_bytes == 5000 + 500 + 5000 == hosts.rated_bytes

    def test_a_revoked_rate_carries_nothing(self) -> None:
        hosts = self.hosts(None)
        hosts.say(MS, 0)
        hosts.hear(self.rate(1, 0, 0, 8_000_000), EMPTY)
        self.pass_ticks(hosts, 1, 3)
        hosts.hear(EMPTY, self.rate(1, 0, 0, 8_000_000))
        self.pass_ticks(hosts, 3, 9)
        assert hosts.sent_bytes == 2000

    def test_rates_below_a_byte_a_tick_add_up(self) -> None:
        hosts = self.hosts(None)
        hosts.say(MS, 0)
        hosts.hear(self.rate(1, 0, 0, 4_000), EMPTY)  # half a byte/ms
        self.pass_ticks(hosts, 1, 11)
        assert hosts.sent_bytes == 5

    def test_a_rate_is_given_back_when_the_queue_is_empty_and_carries_no_more(self) -> None:
        hosts = self.hosts(0)
        hosts.say(MS, 0)
        hosts.waiting_bytes[0] = 1500
        hosts.hear(self.rate(1, 0, 0, 8_000_000), EMPTY)
        assert not len(hosts.say(MS, MS).returned)
        said = hosts.say(MS, 2 * MS)
        assert said.returned["slot"].tolist() == [1] and said.backlog_bytes.tolist() == [0] and hosts.sent_bytes == 1500
        hosts.waiting_bytes[0] = 1500
        self.pass_ticks(hosts, 3, 9)
        assert hosts.sent_bytes == 1500


class TestTheSameCallsAgain:
    """What a policy was told, told to another one."""

    def test_another_number_of_slots_is_an_error(self) -> None:
        calls = Calls([Turn(GBIT, horizon_ns=GBIT + MS, grants=5)])
        with pytest.raises(ValueError, match="lead to 0 slots, and led to 5"):
            calls.again(CompiledSteps())

    def test_only_turns_since_the_beginning_count(self) -> None:
        calls = Calls([Turn(GBIT, horizon_ns=GBIT + MS)])
        calls.begin()
        assert calls.again(CompiledSteps()) == {"ns": 0, "plan_max_us": 0}


class TestARun:
    """A small run of each kind."""

    def test_saturated_slots_are_near_the_optimum_and_never_above(self) -> None:
        figures = run(Case(80, 2, "racks", 2 * MS, 20))["policies"]
        assert all(0.85 < one["granted_fraction"] <= 1.0 for one in figures.values())
        assert all(one["grants"] > 300 and one["ns_per_grant"] > 0 for one in figures.values())
        assert figures["core"]["alone"]["ns_per_grant"] > 0

    @pytest.mark.parametrize("policy", ["hybrid", "rate_limit", "auto"])
    def test_each_policy_grants_nearly_all_that_can_be_granted(self, policy: str) -> None:
        figures = run(Case(80, 2, "racks", 2 * MS, 20, policy=policy))["policies"]
        assert figures.keys() == {"reference", "core"}
        assert all(0.9 < one["granted_fraction"] <= 1.0 for one in figures.values())
        assert all(one["grants"] > 0 for one in figures.values())
        assert ("review_max_us" in figures["core"]) == (policy == "auto")

    @pytest.mark.parametrize("policy", ["rate_limit", "auto"])
    def test_what_is_sent_by_rates_of_a_light_demand_is_what_came(self, policy: str) -> None:
        figures = run(Case(80, 2, "rows", 2 * MS, 400, load=0.3, policy=policy))["policies"]
        assert all(0.8 < one["sent_of_what_came"] < 1.2 for one in figures.values())

    def test_the_command_says_of_what_a_load_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of what may be granted: a load of 0.95 is 0.93 of the fullest link."""
        loads: list[float] = []

        def asked(network: ScaleNetwork, pairs: Pairs, load: float) -> float:
            loads.append(load)
            return admissible_bps(network, pairs, load)

        monkeypatch.setattr("bench.computing.scale.admissible_bps", asked)
        _Slots("core", Case(80, 2, "racks", 2 * MS, 20, policy="steps"), 0.95)
        assert loads == [pytest.approx(0.931)] and HEADROOM == 0.98
        said = " ".join(CliRunner().invoke(main, ["bench", "scale", "--help"]).output.split())
        assert "what may be granted of the fullest link (0.98 of it; in matching all)" in said

    def test_a_matching_by_rates_is_refused(self) -> None:
        with pytest.raises(ValueError, match="timeslice or steps, not by rate_limit"):
            Case(16, 1, "star", 2 * MS, 20, matching=True, policy="rate_limit").check()

    def test_auto_takes_turns_where_one_link_decides_for_each_flow(self) -> None:
        schedule = SCHEDULERS["auto"]["core"](2 * MS, 0.98, False)
        fabric, pairs = network("racks", 80), Pairs(np.array([0, 1]), np.array([2, 2]))
        schedule.start(fabric, pairs, GBIT)
        hosts = Hosts(80, pairs, None, 1000, seed=1)
        schedule.say(hosts.say(MS, GBIT), GBIT)
        schedule.review(GBIT)
        _, grants, _ = schedule.plan(GBIT, GBIT + MS)
        assert len(grants) and (grants["bytes"] > 0).all()

    def test_what_is_sent_of_a_light_demand_is_what_came(self) -> None:
        figures = run(Case(80, 2, "rows", 2 * MS, 400, load=0.3))["policies"]
        assert all(0.8 < one["sent_of_what_came"] < 1.2 for one in figures.values())
        assert all(0.8 < one["granted_in_time"] < 1.05 for one in figures.values())
        assert all(len(one["queue_slots"]) == 5 for one in figures.values())

    def test_windows_of_a_matching_grant_what_comes_and_not_more(self) -> None:
        figures = run(Case(16, 1, "star", 2 * MS, 2000, load=0.5, matching=True, policy="steps"))["policies"]
        one, other = figures["core"]["0.5"], figures["reference"]["0.5"]
        assert one["matched"] == pytest.approx(other["matched"], rel=0.01) == pytest.approx(0.5, rel=0.15)
        assert 0.9 < one["granted_of_what_came"] < 1.1
        assert 0 < one["alone"]["us_per_slot"] < 2 * one["us_per_slot"]

    def test_a_matching_grants_what_comes(self) -> None:
        figures = run(Case(16, 1, "star", 2 * MS, 2000, load=0.5, matching=True))["policies"]
        assert all(0.9 < one["0.5"]["granted_of_what_came"] < 1.1 for one in figures.values())
        assert all(one["0.5"]["matched"] == pytest.approx(0.5, rel=0.15) for one in figures.values())
