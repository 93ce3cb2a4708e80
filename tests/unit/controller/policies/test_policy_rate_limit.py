"""The rate limit's promises: max-min fair shares, leases that are renewed, and falls before rises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.policies.base import Plan, Slot
from controller.policies.rates.leases import LONGEST, LOOKS_AT_ONCE, RENEWED_AT_ONCE, RISEN_AT_ONCE
from controller.policies.rates.policy import LEAST_DEMAND_PART, STEPS_AT_ONCE, RateLimit
from controller.policies.rates.share_out import FALL_STEPS, MANY, REST_NS, TOLD_NS
from tests.unit.controller.policies.policy_kinds import each_kind  # noqa: F401 -- a fixture of all tests here
from tests.unit.controller.policies.policy_networks import (
    FIRST,
    GBIT,
    MBIT,
    Link,
    TreeNetwork,
    max_min_fair,
    racks,
    star,
    trees,
)

MS = 1_000_000
LEASE = 100 * MS
LEAD = 2 * MS
A, B, C, D, E = range(FIRST, FIRST + 5)


def in_one_piece() -> RateLimit:
    """A policy that shares links out to hundreds of senders by one plan."""
    return RateLimit(lease_ns=LEASE, headroom=1.0, steps_at_once=1 << 20)


class Senders:
    """Drives the policy and keeps the leases as hosts would: the newest that has begun counts, until its end."""

    def __init__(self, network: TreeNetwork, policy: RateLimit | None = None) -> None:
        self.policy = policy or RateLimit(lease_ns=LEASE, headroom=1.0)
        self.network = network
        self.now_ns = MS
        self.known: list[Slot] = []
        self.policy.set_network(network, now_ns=self.now_ns)
        self.policy.set_regulated({x: frozenset(network.nodes) - {x} for x in network.nodes}, now_ns=self.now_ns)

    def plan(self) -> Plan:
        plan = self.policy.plan(now_ns=self.now_ns, horizon_ns=self.now_ns + LEAD)
        gone = {(slot.node, slot.destination) for slot in plan.revokes}
        self.known = [slot for slot in self.known if (slot.node, slot.destination) not in gone] + plan.grants
        return plan

    def backlog(self, node: int, *destinations: int) -> Plan:
        self.policy.backlog(node, dict.fromkeys(destinations, 1000), now_ns=self.now_ns)
        return self.plan()

    def run_until(self, then_ns: int) -> None:
        while (event_ns := self.policy.next_event_ns()) is not None and max(event_ns - LEAD, self.now_ns + 1) <= then_ns:
            self.now_ns = max(event_ns - LEAD, self.now_ns + 1)
            self.plan()
        self.now_ns = then_ns

    def rates(self, heard_ns: int | None = None) -> dict[tuple[int, int], int]:
        """What is in force now; or, of hosts that have heard for sure only of what was granted until `heard_ns`, at most."""
        rates: dict[tuple[int, int], int] = {}
        for slot in self.known:
            if slot.start_ns <= self.now_ns:
                pair = slot.node, slot.destination
                rate = slot.rate_bps if slot.end_ns > self.now_ns else 0
                sure = heard_ns is None or slot.start_ns <= heard_ns
                rates[pair] = rate if sure else max(rate, rates.get(pair, 0))
        return {pair: rate for pair, rate in rates.items() if rate}

    def loads(self, rates: dict[tuple[int, int], int]) -> dict[Link, int]:
        loads: dict[Link, int] = {}
        for (x, y), rate in rates.items():
            for link in self.network.path(x, y):
                loads[link] = loads.get(link, 0) + rate
        return loads


class TestShares:
    """Max-min fair."""

    @pytest.mark.parametrize("senders", [1, 2, 3, 5, 7])
    def test_one_bottleneck_is_divided_by_its_senders(self, senders: int) -> None:
        world = Senders(star(8), RateLimit(lease_ns=LEASE, headroom=0.98))
        for x in range(FIRST + 1, FIRST + 1 + senders):
            world.backlog(x, A)
        world.run_until(world.now_ns + 2 * LEAD)
        assert set(world.rates().values()) == {98 * MBIT // senders}
        assert len(world.rates()) == senders

    def test_thirteen_share_a_ten_gigabit_uplink(self) -> None:
        world = Senders(racks(2, 13))
        for number in range(13):
            world.backlog(FIRST + number, FIRST + 13 + number)
        world.run_until(world.now_ns + 2 * LEAD)
        assert set(world.rates().values()) == {10 * GBIT // 13}

    def test_what_a_slow_node_leaves_goes_to_the_others(self) -> None:
        world = Senders(star(4, rates={B: 10 * MBIT}))
        for x in (B, C, D):
            world.backlog(x, A)
        world.run_until(world.now_ns + 2 * LEAD)
        assert world.rates() == {(B, A): 10 * MBIT, (C, A): 45 * MBIT, (D, A): 45 * MBIT}

    def test_the_pairs_of_a_node_share_its_rate(self) -> None:
        world = Senders(star(3))
        world.backlog(A, B, C)
        assert world.rates() == {(A, B): 50 * MBIT, (A, C): 50 * MBIT}

    def test_shares_are_in_proportion_to_weights(self) -> None:
        world = Senders(star(3))
        world.policy.set_weight(C, None, 4)
        world.backlog(B, A)
        world.backlog(C, A)
        world.run_until(world.now_ns + 2 * LEAD)
        assert world.rates() == {(B, A): 20 * MBIT, (C, A): 80 * MBIT}

    @settings(deadline=None)
    @given(trees(), st.data())
    def test_no_link_is_overbooked_and_every_flow_is_held_by_a_full_link_where_none_has_more(
        self, network: TreeNetwork, data: st.DataObject
    ) -> None:
        pairs = [(x, y) for x in network.nodes for y in network.nodes if x != y]
        flows = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
        paths = {flow: network.path(*flow) for flow in flows}
        capacities = {link: network.capacity_bps(link) for path in paths.values() for link in path}
        rates = max_min_fair(paths, capacities, dict.fromkeys(flows, 1.0))
        for flow, path in paths.items():
            assert any(
                sum(rates[f] for f in flows if link in paths[f]) > capacities[link] - 2 * len(flows)
                and all(rates[f] <= rates[flow] + 2 * len(flows) for f in flows if link in paths[f])
                for link in path
            ), "a flow that could have more"
        for link, capacity in capacities.items():
            assert sum(rates[f] for f in flows if link in paths[f]) <= capacity


class TestDemand:
    """Who wants little gets that, and the others share the rest."""

    def world(self) -> Senders:
        world = Senders(star(4))
        for x in (B, C, D):
            world.backlog(x, A)
        world.run_until(world.now_ns + 2 * LEAD)
        return world

    def reports(self, world: Senders, count: int, rates_bps: dict[int, int], greedy: tuple[int, ...]) -> None:
        for _ in range(count):
            world.now_ns += LEASE // 2
            for x, rate in rates_bps.items():
                world.backlog(x, *((A,) if x in greedy else ()))
                world.policy.sent(x, {A: rate}, now_ns=world.now_ns)
            world.plan()
        world.run_until(world.now_ns + 2 * LEAD)

    def test_a_sender_that_wants_five_percent_gets_them_and_others_share_the_rest(self) -> None:
        world = self.world()
        share = world.rates()[C, A]
        self.reports(world, 4, {B: 5 * MBIT, C: share, D: share}, greedy=(C, D))
        rates = world.rates()
        assert 5 * MBIT <= rates[B, A] <= 7 * MBIT
        assert rates[C, A] == rates[D, A] >= 46 * MBIT
        self.reports(world, 20, {B: 5 * MBIT, C: 46 * MBIT, D: 46 * MBIT}, greedy=(C, D))
        assert world.rates() == rates, "it stays a sender, and nothing flaps"

    def test_a_sender_that_wants_more_again_has_its_share_with_its_next_report(self) -> None:
        world = self.world()
        share = world.rates()[C, A]
        self.reports(world, 4, {B: 5 * MBIT, C: share, D: share}, greedy=(C, D))
        self.reports(world, 1, {B: 6 * MBIT, C: share, D: share}, greedy=(B, C, D))
        assert world.rates()[B, A] == share

    def test_a_queue_from_before_its_rate_fell_changes_no_share(self) -> None:
        world = self.world()
        share = world.rates()[C, A]
        self.reports(world, 4, {B: 5 * MBIT, C: share, D: share}, greedy=(C, D))
        rates = world.rates()
        self.reports(world, 1, {B: 5 * MBIT, C: 46 * MBIT, D: 46 * MBIT}, greedy=(B, C, D))
        self.reports(world, 1, {B: 5 * MBIT, C: 46 * MBIT, D: 46 * MBIT}, greedy=(C, D))
        assert world.rates() == rates
        self.reports(world, 2, {B: 5 * MBIT, C: 46 * MBIT, D: 46 * MBIT}, greedy=(B, C, D))
        assert world.rates()[B, A] == share, "a queue that stays means that it wants more"

    def test_a_moment_without_traffic_changes_no_share(self) -> None:
        world = self.world()
        share = world.rates()[C, A]
        self.reports(world, 2, {B: 0, C: share, D: share}, greedy=(C, D))
        self.reports(world, 2, {B: share, C: share, D: share}, greedy=(B, C, D))
        assert set(world.rates().values()) == {share}

    def test_who_is_left_to_grow_can(self) -> None:
        world = self.world()
        share = world.rates()[C, A]
        self.reports(world, 4, {B: 1000, C: share, D: share}, greedy=(C, D))
        assert world.rates()[B, A] == world.network.node_rate_bps(B) // LEAST_DEMAND_PART


class TestChanges:
    """Only what changes is granted again, and no link is promised twice meanwhile."""

    def test_a_new_sender_begins_when_the_others_have_heard_that_they_fall(self) -> None:
        world = Senders(star(4))
        world.backlog(B, A)
        (fall,) = world.backlog(C, A).grants
        assert (fall.node, fall.rate_bps, fall.start_ns) == (B, 50 * MBIT, world.now_ns)
        world.run_until(world.now_ns + LEAD - 1)
        assert (C, A) not in world.rates()
        world.run_until(world.now_ns + 2)
        assert world.rates() == {(B, A): 50 * MBIT, (C, A): 50 * MBIT}

    def test_senders_that_keep_coming_do_not_put_off_those_before_them(self) -> None:
        world = Senders(star(30))
        world.backlog(B, A)
        for x in range(C, FIRST + 30):
            world.backlog(x, A)
            world.run_until(world.now_ns + LEAD // 2)
            late = [y for y in range(C, x - 1) if (y, A) not in world.rates()]
            assert not late

    def test_shares_that_keep_changing_do_not_put_off_what_was_promised(self) -> None:
        world = Senders(star(3))
        world.backlog(A, C)
        world.backlog(B, C)
        began_ns, promised = world.now_ns, 50 * MBIT
        for step in range(1, 41):  # each time A's share falls and B's rises, before hosts have heard of the last time
            world.now_ns += LEAD // 4
            world.policy.set_weight(B, C, 1 + step / 10)
            world.plan()
            if world.now_ns >= began_ns + LEAD:
                assert world.rates().get((B, C), 0) >= promised
            if world.now_ns >= began_ns + 3 * LEAD:
                assert world.rates()[B, C] > 60 * MBIT, "and what came to it since follows"

    def test_a_sender_elsewhere_changes_nothing(self) -> None:
        world = Senders(star(4))
        world.backlog(B, A)
        (grant,) = world.backlog(C, D).grants
        assert grant.node == C

    def test_a_node_that_left_gives_its_share_to_the_others_at_once(self) -> None:
        world = Senders(star(3))
        world.backlog(B, A)
        world.backlog(C, A)
        world.run_until(world.now_ns + 2 * LEAD)
        world.policy.left(B, now_ns=world.now_ns)
        plan = world.plan()
        assert [slot.node for slot in plan.revokes] == [B]
        assert [(slot.node, slot.rate_bps, slot.start_ns) for slot in plan.grants] == [(C, 100 * MBIT, world.now_ns)]

    def test_pairs_no_longer_regulated_are_revoked(self) -> None:
        world = Senders(star(3))
        world.backlog(B, A)
        world.policy.set_regulated({}, now_ns=world.now_ns)
        plan = world.plan()
        assert len(plan.revokes) == 1 and not plan.grants
        assert world.policy.next_event_ns() is None

    @settings(deadline=None)
    @given(trees(), st.sampled_from([1, 20, STEPS_AT_ONCE]), st.data())
    def test_rates_in_force_never_overbook_a_link(
        self, network: TreeNetwork, steps_at_once: int, data: st.DataObject
    ) -> None:
        world = Senders(network, RateLimit(lease_ns=LEASE, headroom=1.0, steps_at_once=steps_at_once))
        nodes = network.nodes
        for _ in range(data.draw(st.integers(1, 15))):
            x = data.draw(st.sampled_from(nodes))
            what = data.draw(st.sampled_from(["backlog", "backlog", "leaves", "weight"]))
            if what == "backlog":
                world.backlog(x, *data.draw(st.sets(st.sampled_from([y for y in nodes if y != x]))))
            elif what == "leaves":
                world.policy.left(x, now_ns=world.now_ns)
                world.plan()
            else:
                world.policy.set_weight(x, None, data.draw(st.sampled_from([0.2, 1.0, 3.0, 10.0])))
                world.plan()
            for _ in range(data.draw(st.integers(1, 3))):
                world.run_until(world.now_ns + data.draw(st.sampled_from([1, LEAD // 2, LEAD, LEASE // 3, 2 * LEASE])))
                for heard_ns in (None, world.now_ns - LEAD):
                    for link, load in world.loads(world.rates(heard_ns)).items():
                        assert load <= network.capacity_bps(link)

    @settings(deadline=None)
    @given(trees(), st.sampled_from([1, 20, STEPS_AT_ONCE]), st.data())
    def test_rates_come_to_rest_at_the_fair_shares(
        self, network: TreeNetwork, steps_at_once: int, data: st.DataObject
    ) -> None:
        world = Senders(network, RateLimit(lease_ns=LEASE, headroom=1.0, steps_at_once=steps_at_once))
        flows = {}
        for x in network.nodes:
            ys = data.draw(st.sets(st.sampled_from([y for y in network.nodes if y != x])))
            world.backlog(x, *ys)
            world.run_until(world.now_ns + data.draw(st.integers(1, LEAD)))
            flows.update({(x, y): (("host", x), *network.path(x, y)) for y in ys})
        world.run_until(world.now_ns + 4 * LEAD)
        capacities = {link: network.capacity_bps(link) for path in flows.values() for link in path[1:]}
        capacities.update({("host", x): network.node_rate_bps(x) for x, _ in flows})
        shares = max_min_fair(flows, capacities, dict.fromkeys(flows, 1.0))
        rates = world.rates()
        assert rates.keys() == shares.keys()
        assert all(abs(rates[flow] - shares[flow]) <= len(flows) for flow in flows)


class TestAShareOutInPieces:
    """One plan makes some steps of it, and the next one goes on."""

    def world(self, steps_at_once: int = 5) -> Senders:
        """B to E send to A at its rate."""
        world = Senders(star(8), RateLimit(lease_ns=LEASE, headroom=1.0, steps_at_once=steps_at_once))
        for x in (B, C, D, E):
            world.policy.backlog(x, {A: 1000}, now_ns=world.now_ns)
        return world

    def finish(self, world: Senders) -> list[Plan]:
        plans = [world.plan()]
        while world.policy.next_event_ns() == world.now_ns:
            world.now_ns += 1
            plans.append(world.plan())
        return plans

    def test_the_next_plan_is_due_at_once_until_rates_are_granted(self) -> None:
        world = self.world()
        assert not world.plan().grants
        assert world.policy.next_event_ns() == world.now_ns
        self.finish(world)
        assert world.rates() == {(x, A): 25 * MBIT for x in (B, C, D, E)}

    def test_rates_rise_when_the_last_fall_has_been_heard(self) -> None:
        world = self.world(FALL_STEPS)
        self.finish(world)
        world.policy.backlog(FIRST + 5, {A: 1000}, now_ns=world.now_ns)
        fallen = [plan.grants for plan in self.finish(world)]
        assert max(map(len, fallen)) == 1, "as many falls as count for a plan"
        last_ns = max(slot.start_ns for grants in fallen for slot in grants)
        assert sum(map(len, fallen)) == 4
        world.run_until(last_ns + LEAD - 1)
        assert (FIRST + 5, A) not in world.rates()
        world.run_until(last_ns + LEAD + 2)
        assert world.rates() == {(x, A): 20 * MBIT for x in (B, C, D, E, FIRST + 5)}

    def test_a_sender_that_begins_meanwhile_is_of_the_next_one(self) -> None:
        world = self.world()
        world.plan()
        world.policy.backlog(FIRST + 5, {A: 1000}, now_ns=world.now_ns)
        first = [slot.rate_bps for plan in self.finish(world) for slot in plan.grants]
        assert first[:4] == [25 * MBIT] * 4
        world.run_until(world.now_ns + 2 * LEAD)
        assert world.rates() == {(x, A): 20 * MBIT for x in (B, C, D, E, FIRST + 5)}

    @pytest.mark.parametrize("plans", range(1, 9))
    @pytest.mark.parametrize("again", [False, True])
    def test_a_sender_that_ends_meanwhile_is_granted_nothing(self, plans: int, again: bool) -> None:
        world = self.world(3)
        for _ in range(plans):
            world.plan()
        began_ns = world.now_ns
        world.policy.left(C, now_ns=world.now_ns)
        if again:
            world.policy.backlog(C, {A: 1000}, now_ns=world.now_ns)
        self.finish(world)
        world.run_until(began_ns + 3 * LEAD)
        others = (B, D, E, *((C,) if again else ()))
        assert world.rates() == {(x, A): 100 * MBIT // len(others) for x in others}

    def test_other_capacities_do_not_have_it_begin_anew(self) -> None:
        """Where they change more often than it ends nobody would be granted anything."""
        world, fall = self.world(), 0
        while not world.rates():
            fall += 1
            assert fall < 50
            link = world.network.path(B, A)[-1]
            world.network = world.network.times({link: 0.99})
            world.policy.set_network(world.network, now_ns=world.now_ns)
            world.now_ns += 1
            world.plan()

    def test_a_new_tree_has_it_begin_anew(self) -> None:
        world = self.world()
        world.plan()
        world.network = star(8, rates={B: 10 * MBIT})
        world.policy.set_network(world.network, now_ns=world.now_ns)
        grants = [slot for plan in self.finish(world) for slot in plan.grants]
        assert [slot.rate_bps for slot in grants if slot.node == B] == [10 * MBIT]

    def test_a_plan_of_thousands_of_senders_grants_and_computes_a_part(self) -> None:
        count = 65
        world = Senders(star(2 * count), RateLimit(lease_ns=LEASE, headroom=1.0))
        for x in range(FIRST, FIRST + count):
            world.policy.backlog(x, dict.fromkeys(range(FIRST + count, FIRST + 2 * count), 1000), now_ns=world.now_ns)
        plans = self.finish(world)
        assert len(plans) > count * count // RISEN_AT_ONCE and not plans[0].grants
        assert max(len(plan.grants) for plan in plans) <= RISEN_AT_ONCE + RENEWED_AT_ONCE
        assert len(world.rates()) == count * count


class TestLeases:
    """Renewed early, and lost when nothing waits."""

    def test_a_lease_is_renewed_well_before_it_ends_and_without_a_gap(self) -> None:
        world = Senders(star(2))
        world.backlog(B, A)
        for _ in range(50):
            world.run_until(world.now_ns + LEASE // 10)
            assert world.rates() == {(B, A): 100 * MBIT}
            assert max(slot.end_ns for slot in world.known) - world.now_ns >= LEASE // 3
        assert len(world.known) <= 12

    def test_a_sender_whose_queue_is_empty_for_a_moment_keeps_its_rate(self) -> None:
        world = Senders(star(2))
        world.backlog(B, A)
        for _ in range(20):
            world.backlog(B)
            world.run_until(world.now_ns + LEASE // 2)
            world.backlog(B, A)
            assert world.rates()

    def test_a_rate_that_stays_is_renewed_ever_more_seldom_and_a_new_one_soon(self) -> None:
        world = Senders(star(3))
        world.backlog(B, A)
        world.run_until(world.now_ns + 20 * LEASE)
        world.known.clear()
        world.run_until(world.now_ns + 40 * LEASE)
        assert 10 <= len(world.known) <= 2 * 40 // LONGEST + 1
        world.backlog(C, A)
        world.run_until(world.now_ns + 2 * LEAD)
        world.known.clear()
        world.run_until(world.now_ns + LEASE)
        again = {(slot.node, slot.rate_bps) for slot in world.known}
        assert again == {(B, 50 * MBIT), (C, 50 * MBIT)}, "who missed it hears of it again"

    @pytest.mark.parametrize("sent_ns", [2 * LEAD, 30 * LEASE])
    def test_a_sender_that_stopped_loses_its_lease_as_soon_however_long_it_sent(self, sent_ns: int) -> None:
        world = Senders(star(3))
        world.backlog(B, A)
        world.backlog(C, A)
        world.run_until(world.now_ns + sent_ns)
        world.backlog(B)
        world.run_until(world.now_ns + LEASE - 1)
        assert (B, A) in world.rates()
        world.run_until(world.now_ns + LEASE)
        assert world.rates() == {(C, A): 100 * MBIT}

    def test_many_leases_are_renewed_by_several_plans(self) -> None:
        world = Senders(star(RENEWED_AT_ONCE + 40), in_one_piece())
        for x in range(B, FIRST + RENEWED_AT_ONCE + 40):
            world.policy.backlog(x, {A: 1000}, now_ns=world.now_ns)
        first = len(world.plan().grants)
        assert first == RENEWED_AT_ONCE + 39
        world.now_ns += LEASE // 2
        plans = [world.plan()]
        assert world.policy.next_event_ns() == world.now_ns, "the others are due"
        plans.append(world.plan())
        assert [len(plan.grants) for plan in plans] == [RENEWED_AT_ONCE, first - RENEWED_AT_ONCE]
        assert not world.plan().grants

    def test_many_rates_rise_by_several_plans(self) -> None:
        world = Senders(star(RISEN_AT_ONCE + 41), in_one_piece())
        for x in range(B, FIRST + RISEN_AT_ONCE + 41):
            world.policy.backlog(x, {A: 1000}, now_ns=world.now_ns)
        plans = [world.plan()]
        assert world.policy.next_event_ns() == world.now_ns, "the others may rise"
        plans.append(world.plan())
        assert [len(plan.grants) for plan in plans] == [RISEN_AT_ONCE, 40]
        assert len(world.rates()) == RISEN_AT_ONCE + 40

    def test_among_many_senders_shares_are_found_anew_only_after_a_while(self) -> None:
        count = MANY // 40
        world = Senders(star(41 + count))
        for x in range(FIRST, FIRST + 41):
            world.backlog(x, *range(FIRST + 41, FIRST + 41 + count))
        world.run_until(world.now_ns + 10 * LEAD)
        last, sink = FIRST + 41, FIRST + 42
        first = world.backlog(last, sink).grants  # the 41st node's senders are more than MANY
        while world.policy.next_event_ns() == world.now_ns:
            first += world.plan().grants
        assert any(slot.rate_bps < 100 * MBIT // 41 for slot in first), "shares were found"
        began_ns = world.now_ns
        world.now_ns += 1
        assert not world.backlog(last, sink, sink + 1).grants
        world.run_until(began_ns + 41 * count * (REST_NS + TOLD_NS) + 2 * LEAD)
        assert world.rates()[last, sink + 1] > 0

    def test_a_lease_is_renewed_behind_many_that_have_ended(self) -> None:
        last = FIRST + 2 * LOOKS_AT_ONCE + 2
        world = Senders(star(2 * LOOKS_AT_ONCE + 3))
        for x in range(B, last + 1):
            world.policy.backlog(x, {A: 1000}, now_ns=world.now_ns)
        world.plan()
        world.run_until(world.now_ns + LEASE // 4)
        for x in range(B, last):
            world.policy.left(x, now_ns=world.now_ns)
        world.run_until(world.now_ns + 3 * LEASE)
        assert (last, A) in world.rates()

    def test_a_sender_that_stopped_is_seen_when_its_time_is_over_however_far_its_renewal_is(self) -> None:
        world = Senders(star(2))
        world.backlog(B, A)
        world.run_until(world.now_ns + 40 * LEASE)
        stopped_ns = world.now_ns
        world.backlog(B)
        assert world.policy.next_event_ns() == stopped_ns + LEASE + LEAD

    def test_a_lease_that_stays_is_not_looked_at_before_half_of_it_is_over(self) -> None:
        world = Senders(star(2))
        world.backlog(B, A)
        world.run_until(world.now_ns + 40 * LEASE)
        lease = world.known[-1]
        assert lease.end_ns - lease.start_ns == LONGEST * LEASE
        assert world.policy.next_event_ns() == (lease.start_ns + lease.end_ns) // 2 + LEAD

    def test_a_rate_given_back_is_free_at_once(self) -> None:
        world = Senders(star(3))
        world.backlog(B, A)
        world.backlog(C, A)
        world.run_until(world.now_ns + 2 * LEAD)
        mine = [slot for slot in world.known if slot.node == B][-1]
        world.policy.yielded(B, A, mine.slot, now_ns=world.now_ns)
        assert [(slot.node, slot.rate_bps) for slot in world.plan().grants] == [(C, 100 * MBIT)]

    def test_a_rate_that_changed_while_the_host_gave_it_back_is_revoked(self) -> None:
        """Otherwise it stays for the length of a lease: where rates change all the time, nearly each one does."""
        world = Senders(star(3))
        world.backlog(B, A)
        known = next(slot for slot in world.known if slot.node == B)
        world.backlog(C, A)
        changed = [slot for slot in world.known if slot.node == B][-1]
        assert changed.slot != known.slot
        world.run_until(world.now_ns + 2 * LEAD)
        world.policy.yielded(B, A, known.slot, now_ns=world.now_ns)
        plan = world.plan()
        assert [slot.slot for slot in plan.revokes] == [changed.slot]
        assert [(slot.node, slot.rate_bps) for slot in plan.grants] == [(C, 100 * MBIT)]

    def test_it_stays_where_packets_wait_again(self) -> None:
        world = Senders(star(3))
        world.backlog(B, A)
        known = next(slot for slot in world.known if slot.node == B)
        world.backlog(C, A)
        world.run_until(world.now_ns + 2 * LEAD)
        world.policy.yielded(B, A, known.slot, now_ns=world.now_ns, backlog_bytes=1514)
        assert not world.plan().revokes and world.rates()[B, A] == 50 * MBIT

    @pytest.mark.parametrize("arguments", [{"lease_ns": 0}, {"headroom": 0}, {"headroom": 1.1}, {"steps_at_once": 0}])
    def test_an_argument_out_of_range_is_refused_by_name(self, arguments: dict[str, float]) -> None:
        with pytest.raises(ValueError, match=next(iter(arguments))):
            RateLimit(**arguments)  # type: ignore[arg-type] -- numbers by name
