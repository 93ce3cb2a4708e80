"""The steps policy grants what the links carry, in a fair order, whoever asks; its core in C gives the reference's plans."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from controller.policies.base import Plan, Policy, Slot
from controller.policies.compiled.steps import CompiledSteps
from controller.policies.steps.policy import AHEAD, TURN, Steps
from controller.policies.steps.queue import SPARE
from tests.unit.controller.policies.compiled.test_policy_compiled import MS, BothKinds, several
from tests.unit.controller.policies.policy_networks import FIRST, GBIT, MBIT, TreeNetwork, racks, star, trees
from tests.unit.controller.policies.policy_sanitized import build_under_test, run_with_policies

STEP = 2 * MS
KINDS = pytest.mark.parametrize("kind", [Steps, CompiledSteps])
Kind = Callable[..., Policy]


class BothSteps(BothKinds):
    """The same events to both kinds of the policy; whatever they grant, no link carries more than it can."""

    @initialize(
        drawn=st.lists(trees(8), min_size=1, max_size=2),
        first=st.integers(0, 3),
        burst_bytes=st.sampled_from([0, 48_448]),
        lead_ns=st.sampled_from([0, MS // 2, 2 * MS, 5 * MS, 40 * MS]),
        crowded=st.booleans(),
        at_once=st.sampled_from([1, 10, 1000]),
        counted=st.booleans(),
    )
    def begin(  # type: ignore[override]
        self, drawn: list[TreeNetwork], first: int, burst_bytes: int, lead_ns: int, crowded: bool,
        at_once: int, counted: bool,
    ) -> None:  # fmt: skip
        self.policies: tuple[Policy, Policy] = (
            Steps(burst_bytes=burst_bytes, at_once=at_once, counted=counted),
            CompiledSteps(burst_bytes=burst_bytes, at_once=at_once, counted=counted, library=build_under_test("steps")),
        )
        self.start([star(8), racks(2, 4, uplink_bps=2 * GBIT), star(8, rates={FIRST: GBIT}), *drawn], first, lead_ns, crowded)


@pytest.mark.hypothesis
def test_both_kinds_give_the_same_plans_for_the_same_events() -> None:
    run_state_machine_as_test(BothSteps, settings=several(100, 40))  # type: ignore[no-untyped-call]


@KINDS
def test_no_slot_is_granted_from_a_node_to_itself(kind: Kind) -> None:
    """It would take the node's links from others."""
    policy, network = kind(), star(8)
    policy.set_network(network, now_ns=0)
    policy.set_regulated({node: frozenset(network.nodes) for node in network.nodes}, now_ns=0)
    for now_ns in (0, STEP):
        policy.backlog(FIRST + 1, {FIRST + 1: 5000, FIRST: 5000}, now_ns=now_ns)
        plan = policy.plan(now_ns=now_ns, horizon_ns=now_ns)
        assert [slot.destination for slot in plan.grants] == [FIRST]


def test_both_kinds_give_the_same_plans_where_flows_are_parked() -> None:
    policies, hosts = (Steps(), CompiledSteps(library=build_under_test("steps"))), SPARE * 3
    network, nodes = racks(2, hosts, uplink_bps=2 * GBIT), range(FIRST, FIRST + 2 * hosts)
    for number in range(60):
        plans = []
        for policy in policies:
            if not number:
                begin(policy, network)
            for node in nodes[number % 7 :: 7]:
                others = [other for other in nodes if (other * 7 + node + number) % 3]
                policy.backlog(node, dict.fromkeys(others, 5000), now_ns=number * STEP)
            if number % 11 == 5:
                policy.left(nodes[number], now_ns=number * STEP)
            if number == 40:
                policy.set_network(network, now_ns=number * STEP)
            plans.append(policy.plan(now_ns=number * STEP, horizon_ns=(number + 1) * STEP))
        assert plans[0] == plans[1] and plans[0].grants
    assert policies[0]._queue._crowded


def test_the_core_touches_no_foreign_memory_and_overflows_nowhere(tmp_path: Path) -> None:
    """The same events under the address and the undefined-behaviour sanitizers."""
    assert "same plans" in run_with_policies(__name__, tmp_path)


def begin(policy: Policy, network: TreeNetwork) -> None:
    nodes = frozenset(network.nodes)
    policy.set_network(network, now_ns=0)
    policy.set_regulated({node: nodes - {node} for node in nodes}, now_ns=0)


def run(policy: Policy, steps: int) -> list[Slot]:
    """All that is granted in some steps, planned one after another."""
    return [
        slot for number in range(steps)
        for slot in policy.plan(now_ns=number * STEP, horizon_ns=number * STEP).grants
    ]  # fmt: skip


def check(network: TreeNetwork, slots: list[Slot]) -> None:
    """No link carries more than it can, and no node sends to two destinations at once."""
    for start_ns in {slot.start_ns for slot in slots}:
        now = [slot for slot in slots if slot.start_ns <= start_ns < slot.end_ns]
        assert max(Counter(slot.node for slot in now).values()) == 1
        load: Counter[object] = Counter()
        for slot in now:
            load.update(dict.fromkeys(network.path(slot.node, slot.destination), slot.reserved_bps))
        assert all(size <= network.capacity_bps(link) for link, size in load.items())  # type: ignore[arg-type]


def test_arrays_say_what_slots_say_until_the_next_plan_and_keep_the_policy() -> None:
    plans = []
    for _ in range(2):
        policy = CompiledSteps(library=build_under_test("steps"))
        begin(policy, star(6))
        for node in range(FIRST, FIRST + 6):
            policy.backlog(node, {FIRST + (node - FIRST + 1) % 6: 5000}, now_ns=0)
        plans.append(policy)
    granted, revoked = plans.pop().plan_arrays(now_ns=0, horizon_ns=STEP)
    del policy
    gc.collect()
    plan = plans.pop().plan(now_ns=0, horizon_ns=STEP)
    assert [Slot(*row) for row in granted.tolist()] == plan.grants and len(plan.grants) == 12 and not len(revoked)


def test_pairs_that_begin_to_wait_may_be_told_alone() -> None:
    plans = []
    for alone in (True, False):
        policy = CompiledSteps()
        begin(policy, star(6))
        for number, (node, destination) in enumerate([(FIRST, FIRST + 3), (FIRST + 1, FIRST + 3), (FIRST, FIRST + 4)]):
            if alone:
                policy.begin(np.array([node]), np.array([destination]), now_ns=number * STEP)
            else:
                told = (FIRST + 3, FIRST + 4)[: 1 + number // 2]
                policy.backlog(node, dict.fromkeys(told, 5000), now_ns=number * STEP)
            plans.append((alone, policy.plan(now_ns=number * STEP, horizon_ns=(number + 1) * STEP)))
    assert [plan for alone, plan in plans if alone] == [plan for alone, plan in plans if not alone]


def test_memory_grows_with_what_waits_and_not_with_all_that_ever_waited() -> None:
    policy, network = CompiledSteps(), star(200)
    begin(policy, network)
    sizes = []
    for number in range(2_000):
        node = FIRST + number % 100
        policy.backlog(node, {FIRST + 100 + (number + number // 100 * 7) % 100: 5000}, now_ns=number * STEP)
        policy.plan(now_ns=number * STEP, horizon_ns=number * STEP)
        policy.backlog(node, {}, now_ns=number * STEP + 1)
        policy.plan(now_ns=number * STEP + 1, horizon_ns=number * STEP + 1)
        sizes.append(len(policy._places.pairs()[0]))
    assert max(sizes[100:]) < 20


@KINDS
@pytest.mark.parametrize("missing", [(), (1,), (3,), (5,), (3, 4), (2, 4), (1, 3), (1, 2, 3, 4, 5)])
def test_destinations_that_are_not_regulated_get_no_slot(kind: Kind, missing: tuple[int, ...]) -> None:
    """Whichever of a range of node ids they are."""
    network, policy = star(7), kind()
    begin(policy, network)
    others = {FIRST + number for number in range(1, 6)}
    regulated = others - {FIRST + number for number in missing}
    policy.set_regulated({FIRST: frozenset(regulated)}, now_ns=0)
    for node in (FIRST, FIRST + 6):
        policy.backlog(node, dict.fromkeys(others, 5000), now_ns=0)
    assert {(slot.node, slot.destination) for slot in run(policy, 12)} == {(FIRST, other) for other in regulated}


@KINDS
def test_no_link_carries_more_than_it_can_and_one_that_is_asked_for_carries_all(kind: Kind) -> None:
    network, policy = racks(2, 6, uplink_bps=2 * GBIT), kind()
    begin(policy, network)
    for node in network.nodes[:6]:
        policy.backlog(node, dict.fromkeys(network.nodes[6:], 5000), now_ns=0)
    slots = run(policy, 60)
    check(network, slots)
    assert len(slots) == 2 * 60


@KINDS
def test_a_step_of_more_bytes_than_a_directive_can_say_is_bounded_by_its_rate(kind: Kind) -> None:
    policy = kind(slice_ns=1000 * MS, headroom=0.98)
    begin(policy, star(2, 100 * GBIT))
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=0)
    slots = policy.plan(now_ns=0, horizon_ns=900 * MS).grants
    assert slots and {(slot.bytes, slot.rate_bps) for slot in slots} == {(0, 98 * GBIT)}


@KINDS
def test_senders_of_one_destination_take_turns_by_their_weights(kind: Kind) -> None:
    network, policy = star(4), kind()
    begin(policy, network)
    policy.set_weight(FIRST + 1, None, 3)
    for node in network.nodes[1:]:
        policy.backlog(node, {FIRST: 5000}, now_ns=0)
    slots = run(policy, 100)
    assert Counter(slot.node for slot in slots) == {FIRST + 1: 60, FIRST + 2: 20, FIRST + 3: 20}


@KINDS
def test_a_small_weight_that_was_taken_back_leaves_no_trace(kind: Kind) -> None:
    """Turns are as long as the least weight that is set now makes them."""
    network, policy = star(4), kind()
    begin(policy, network)
    policy.set_weight(FIRST + 1, None, 0.01)
    policy.set_weight(FIRST + 1, None, 1)
    for node in network.nodes[1:]:
        policy.backlog(node, {FIRST: 5000}, now_ns=0)
    assert Counter(slot.node for slot in run(policy, 6)) == {FIRST + 1: 2, FIRST + 2: 2, FIRST + 3: 2}


@KINDS
def test_more_senders_than_are_awake_take_turns_as_well(kind: Kind) -> None:
    network, policy = star(4 * SPARE), kind()
    begin(policy, network)
    for node in network.nodes[1:]:
        policy.backlog(node, {FIRST: 5000}, now_ns=0)
    slots = run(policy, 10 * (4 * SPARE - 1))
    assert set(Counter(slot.node for slot in slots).values()) == {10}


@KINDS
@pytest.mark.parametrize("anew", [False, True], ids=["capacities", "links"])
@pytest.mark.parametrize("senders", [6, 3 * SPARE + 16])
def test_a_fabric_that_keeps_changing_makes_nobody_wait_for_ever(kind: Kind, senders: int, anew: bool) -> None:
    """Links come under control one after another, and each is drained for a moment: the turns go on where they were."""
    network = star(senders + 1)
    policy = kind()
    begin(policy, network)
    sink = FIRST + senders
    for node in range(FIRST, sink):
        policy.backlog(node, {sink: 1 << 40}, now_ns=0)
    served: Counter[int] = Counter()
    elsewhere = network.path(FIRST, FIRST + 1)[0]
    for number in range(2 * senders):
        if anew:
            policy.set_network(star(senders + 1), now_ns=number * STEP)
        else:
            policy.set_network(network.times({elsewhere: 1 - number % 2 / 10}), now_ns=number * STEP)
        served.update(slot.node for slot in policy.plan(now_ns=number * STEP, horizon_ns=number * STEP).grants)
    assert len(served) == senders and max(served.values()) <= min(served.values()) + 1


@KINDS
def test_a_window_of_steps_is_a_maximal_matching_in_each_of_them_and_shares_them_evenly(kind: Kind) -> None:
    network, policy = star(4), kind()
    begin(policy, network)
    for node in network.nodes:
        policy.backlog(node, {other: 5000 for other in network.nodes if other != node}, now_ns=0)
    slots = policy.plan(now_ns=0, horizon_ns=5 * STEP).grants
    check(network, slots)
    for start_ns in range(0, 6 * STEP, STEP):
        now = [slot for slot in slots if slot.start_ns == start_ns]
        idle = set(network.nodes) - {slot.node for slot in now}, set(network.nodes) - {slot.destination for slot in now}
        assert all(node == other for node in idle[0] for other in idle[1])
    assert max(Counter((slot.node, slot.destination) for slot in slots).values()) <= 3


@KINDS
def test_the_slots_of_a_node_in_a_window_are_granted_side_by_side_in_their_order(kind: Kind) -> None:
    network, policy = star(6), kind()
    begin(policy, network)
    for node in network.nodes[:3]:
        policy.backlog(node, dict.fromkeys(network.nodes[3:], 5000), now_ns=0)
    slots = policy.plan(now_ns=0, horizon_ns=3 * STEP).grants
    assert [slot.start_ns for slot in slots] == [0, STEP, 2 * STEP, 3 * STEP] * 3
    assert [slot.node for slot in slots] == [node for node in network.nodes[:3] for _ in range(4)]


@KINDS
def test_a_plan_of_many_slots_comes_in_pieces_and_the_next_one_is_due_at_once(kind: Callable[..., Policy]) -> None:
    network, policy = star(4), kind(at_once=4)
    begin(policy, network)
    for node in network.nodes[:2]:
        policy.backlog(node, dict.fromkeys(network.nodes[2:], 5000), now_ns=0)
    found = []
    for _ in range(4):
        found.append({slot.start_ns // STEP for slot in policy.plan(now_ns=0, horizon_ns=5 * STEP).grants})
        event_ns = policy.next_event_ns()
        assert event_ns is not None and (event_ns <= 5 * STEP) == (len(found) < 4)
    assert found == [{0}, {1, 2}, {3, 4}, {5}]  # four flows may make four slots a step, but make two


@KINDS
def test_who_tells_how_many_bytes_wait_is_granted_slots_for_them_and_no_more(kind: Callable[..., Policy]) -> None:
    network, policy = star(3), kind(counted=True)
    begin(policy, network)
    whole = kind()
    begin(whole, network)
    whole.backlog(FIRST, {FIRST + 1: 5000}, now_ns=0)
    size = whole.plan(now_ns=0, horizon_ns=0).grants[0].bytes
    policy.backlog(FIRST, {FIRST + 1: 3 * size - 1, FIRST + 2: 1}, now_ns=0)
    slots = policy.plan(now_ns=0, horizon_ns=7 * STEP).grants
    assert [slot.destination for slot in slots] == [FIRST + 1] * 3 + [FIRST + 2]
    policy.backlog(FIRST, {FIRST + 1: 3 * size - 1, FIRST + 2: 1}, now_ns=0)
    assert policy.plan(now_ns=0, horizon_ns=7 * STEP) == Plan()
    policy.backlog(FIRST, {FIRST + 1: 3 * size + 1}, now_ns=0)
    plan = policy.plan(now_ns=0, horizon_ns=7 * STEP)
    assert [slot.destination for slot in plan.revokes] == [FIRST + 2]
    assert [(slot.destination, slot.start_ns) for slot in plan.grants] == [(FIRST + 1, 3 * STEP)]
    policy.yielded(FIRST, FIRST + 1, plan.grants[0].slot, now_ns=0, backlog_bytes=3 * size + 1)
    assert len(policy.plan(now_ns=0, horizon_ns=7 * STEP).grants) == 1
    assert policy.plan(now_ns=STEP, horizon_ns=8 * STEP) == Plan() and policy.next_event_ns() is None


@KINDS
def test_a_slot_that_a_changed_fabric_took_is_granted_anew_to_who_told_its_bytes(kind: Callable[..., Policy]) -> None:
    policy = kind(counted=True)
    begin(policy, star(3))
    policy.backlog(FIRST, {FIRST + 1: 1}, now_ns=0)
    (slot,) = policy.plan(now_ns=0, horizon_ns=0).grants
    policy.set_network(star(3, rates={FIRST + 1: 10 * MBIT}), now_ns=0)
    plan = policy.plan(now_ns=0, horizon_ns=0)
    assert plan.revokes == [slot] and [slot.destination for slot in plan.grants] == [FIRST + 1]


@KINDS
def test_turns_are_of_several_steps_where_bytes_are_known_and_each_flow_has_its_own(kind: Callable[..., Policy]) -> None:
    network, policy = star(4), kind(counted=True)
    begin(policy, network)
    for node in network.nodes[1:]:
        policy.backlog(node, {FIRST: 1 << 40}, now_ns=0)
    nodes = [slot.node for slot in run(policy, 6 * TURN)]
    assert nodes == [node for node in network.nodes[1:] * 2 for _ in range(TURN)]


@KINDS
def test_what_a_host_gives_back_is_granted_to_another_for_the_rest_of_the_step(kind: Kind) -> None:
    network, policy = star(3), kind()
    begin(policy, network)
    for node in (FIRST + 1, FIRST + 2):
        policy.backlog(node, {FIRST: 5000}, now_ns=0)
    (first,) = policy.plan(now_ns=0, horizon_ns=0).grants
    policy.yielded(first.node, FIRST, first.slot, now_ns=STEP // 2)
    (rest,) = policy.plan(now_ns=STEP // 2, horizon_ns=STEP // 2).grants
    assert rest.node != first.node and (rest.start_ns, rest.end_ns) == (STEP // 2, STEP)
    assert policy.next_event_ns() == STEP


@KINDS
def test_a_slot_that_has_not_begun_is_revoked_when_nothing_waits(kind: Kind) -> None:
    policy = kind()
    begin(policy, star(2))
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=0)
    running, ahead = policy.plan(now_ns=1, horizon_ns=STEP).grants
    assert (running.start_ns, running.end_ns, ahead.start_ns, ahead.end_ns) == (1, STEP, STEP, 2 * STEP)
    policy.backlog(FIRST, {}, now_ns=2)
    assert policy.plan(now_ns=2, horizon_ns=2).revokes == [ahead]


@KINDS
def test_who_asks_too_far_ahead_is_told_to_ask_again_when_more_may_be_planned(kind: Kind) -> None:
    policy = kind()
    begin(policy, star(2))
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=0)
    assert len(policy.plan(now_ns=0, horizon_ns=20 * STEP).grants) == AHEAD
    event_ns = policy.next_event_ns()
    assert event_ns == 21 * STEP
    assert len(policy.plan(now_ns=event_ns - 20 * STEP, horizon_ns=event_ns).grants) == 1


@KINDS
def test_no_slot_begins_before_a_directive_can_be_there(kind: Kind) -> None:
    policy = kind()
    begin(policy, star(2))
    policy.set_delay(FIRST, STEP // 4)
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=0)
    assert policy.plan(now_ns=0, horizon_ns=0).grants[0].start_ns == STEP // 4


@KINDS
def test_a_destination_slower_than_its_senders_is_never_starved_and_gets_a_rate(kind: Kind) -> None:
    network, policy = star(2, rates={FIRST: GBIT, FIRST + 1: 10 * MBIT}), kind()
    begin(policy, network)
    policy.backlog(FIRST, {FIRST + 1: 5000}, now_ns=0)
    slots = run(policy, 4)
    assert [(slot.reserved_bps, slot.bytes + slot.rate_bps > 0) for slot in slots] == [(10 * MBIT, True)] * 4


if __name__ == "__main__":
    run_state_machine_as_test(BothSteps, settings=several(15, 25))  # type: ignore[no-untyped-call]
    test_both_kinds_give_the_same_plans_where_flows_are_parked()
    test_arrays_say_what_slots_say_until_the_next_plan_and_keep_the_policy()
    print("same plans")
