"""What goes out for a slot: the lease, the grace, and what is counted of it."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from controller.config.settings import CoordinatorSettings
from controller.frames.frames import OPENED, Batch
from controller.members.registry import Members
from controller.policies.base import Slot
from controller.policies.compiled.batches import RETURNED, Batched
from controller.scheduling.granting import GRACE_PART, INFORMED_AT_ONCE, LATE_PART, Granting
from controller.scheduling.network import FabricNetwork
from controller.scheduling.telemetry import Telemetry
from protocol.messages import Ack, Backlog, Directive, Grant, Message, Yield
from topology import shapes
from topology.paths import Routes
from topology.spanning_tree import Tree

MBIT, MS = 10**6, 10**6


class World:
    """Three hosts at a switch; the first two need permission for the third."""

    def __init__(self, **settings: object) -> None:
        fields = {"interface": "c0", "attachment": "s1:c0", "key_file": None, "store": "", "policy": "timeslice", **settings}
        self.settings = CoordinatorSettings(**fields)  # type: ignore[arg-type]
        self.members = Members()
        for number in (1, 2, 3):
            self.members.register(bytes([2, 0, 0, 0, 0, number]), f"h{number}", 100 * MBIT, (), "tbf", "1", 0)
        fabric = shapes.build("star", hosts=3, rate_bps=100 * MBIT)
        network = FabricNetwork(fabric, Routes(fabric, Tree.from_blocked(fabric, ())), self.members.present())
        self.sent: list[tuple[Message, bytes]] = []
        self.granting = Granting(self.settings, self.members, lambda *sent: self.sent.append(sent), Telemetry(lambda _: True))
        self.granting.set_network(network, 0)
        self.granting.inform({16: frozenset({18}), 17: frozenset({18})}, frozenset(), 0)

    def backlog(self, node: int, size: int, now_ns: int = 0) -> None:
        member = self.members.get(node)
        assert member is not None
        self.granting.on_backlog(member, Backlog(now_ns + 1, 0, 1, ((18, size, 0),)), now_ns)

    def acknowledge(self, grant: Grant, late_ns: int) -> None:
        member = self.members.get(16)
        assert member is not None
        opened_ns = grant.start_ns + late_ns
        self.granting.on_ack(member, Ack(grant.slot, grant.destination, grant.start_ns, opened_ns), opened_ns)

    def grants(self) -> list[Grant]:
        return [grant for message, _ in self.sent if isinstance(message, Directive) for grant in message.grants]


@pytest.mark.parametrize(("slice_ms", "grace_ms", "kept_ms"), [(2, 1, 2 / GRACE_PART), (50, 1, 1), (10, 0, 0)])
def test_a_lease_lasts_the_grace_longer_than_the_slot_but_no_more_than_a_part_of_it(
    slice_ms: int, grace_ms: int, kept_ms: float
) -> None:
    """What is sent later than that waits in a buffer behind the frames of the next slot."""
    world = World(slice_ns=slice_ms * MS, grace_ns=grace_ms * MS)
    world.backlog(16, 10**6)
    (grant,) = world.grants()
    assert grant.end_ns - grant.start_ns == slice_ms * MS + int(kept_ms * MS)


def test_a_rate_has_no_grace() -> None:
    world = World(policy="rate_limit", slice_ns=2 * MS)
    world.backlog(16, 10**6)
    (grant,) = world.grants()
    assert grant.rate_bps and (grant.end_ns - grant.start_ns) % MS == 0


def test_a_slot_that_opened_late_is_counted_once_and_one_in_time_is_not() -> None:
    world = World(slice_ns=8 * MS)
    world.backlog(16, 10**6)
    (grant,) = world.grants()
    world.acknowledge(grant, 8 * MS // LATE_PART + 1)
    world.acknowledge(grant, 8 * MS // LATE_PART + 1)
    assert (world.granting.tallies.late, world.granting.tallies.acks) == (1, 1)
    world.granting.plan(grant.start_ns + 7 * MS)
    world.acknowledge(world.grants()[-1], 8 * MS // LATE_PART)
    assert (world.granting.tallies.late, world.granting.tallies.acks) == (1, 2)


def test_slots_begin_when_their_directives_can_be_there_and_are_planned_that_much_further_ahead() -> None:
    """A directive takes 5 ms to the first host, which the first acknowledgement shows."""
    world = World(slice_ns=8 * MS)
    world.backlog(16, 10**6)
    (first,) = world.grants()
    member = world.members.get(16)
    assert member is not None
    world.granting.on_ack(member, Ack(first.slot, 18, 5 * MS, 5 * MS), 10 * MS)
    assert world.granting.due_ns is not None
    world.granting.plan(10 * MS)
    assert world.granting.due_ns <= world.grants()[-1].end_ns - 5 * MS - world.settings.lead_ns
    world.granting.on_backlog(member, Backlog(10**9, 0, 1, ()), 30 * MS)
    world.sent.clear()
    world.backlog(16, 10**6, 60 * MS)
    assert [grant.start_ns for grant in world.grants()[:1]] == [65 * MS]


def test_another_policy_knows_the_delays_too() -> None:
    world = World(slice_ns=8 * MS)
    world.backlog(16, 10**6)
    (first,) = world.grants()
    member = world.members.get(16)
    assert member is not None and world.granting.network is not None
    world.granting.on_ack(member, Ack(first.slot, 18, 5 * MS, 5 * MS), 10 * MS)
    world.granting.renew(world.settings, 20 * MS)
    world.granting.set_network(world.granting.network, 20 * MS)
    world.sent.clear()
    world.granting.inform({16: frozenset({18})}, frozenset(), 20 * MS)
    assert [grant.start_ns for grant in world.grants()[:1]] == [25 * MS]


def test_the_next_slot_is_as_long_as_what_was_used_of_the_one_given_back() -> None:
    world = World(slice_ns=8 * MS)
    world.backlog(16, 10**6)
    (first,) = world.grants()
    member = world.members.get(16)
    assert member is not None
    world.sent.clear()
    world.granting.on_yield(member, Yield(18, first.slot, first.bytes * 3 // 4, 10**6), 2 * MS)
    lengths = [grant.end_ns - grant.start_ns for grant in world.grants()]
    assert lengths and lengths[0] < 5 * MS, "a quarter of 8 ms was used"


def test_what_a_host_gives_back_is_the_next_ones_at_once() -> None:
    world = World(slice_ns=8 * MS)
    world.backlog(16, 1500)
    world.backlog(17, 10**6)
    first = world.grants()[0]
    member = world.members.get(16)
    assert member is not None
    world.sent.clear()
    world.granting.on_yield(member, Yield(18, first.slot, 90_000, 0), first.start_ns + MS)
    (grant,) = world.grants()
    assert grant.start_ns <= first.start_ns + MS + MS and world.sent[0][1] == bytes([2, 0, 0, 0, 0, 2])


def test_the_word_of_one_who_is_distrusted_gets_no_slot() -> None:
    world = World()
    world.granting.distrust(frozenset({16}), 0)
    world.backlog(16, 10**6)
    assert world.grants() == []
    world.granting.distrust(frozenset(), 1)
    assert len(world.grants()) == 1


def many(hosts: int, policy: str) -> World:
    """A world of more hosts, each of which has something for the next three; every pair needs permission."""
    world = World(policy=policy, slice_ns=8 * MS)
    for number in range(4, hosts + 1):
        world.members.register(b"\2" + number.to_bytes(5), f"h{number}", 100 * MBIT, (), "tbf", "1", 0)
    fabric = shapes.build("star", hosts=hosts, rate_bps=100 * MBIT)
    world.granting.set_network(FabricNetwork(fabric, Routes(fabric, Tree.from_blocked(fabric, ())), world.members.present()), 0)
    nodes = [member.node for member in world.members.present()]
    for at, member in enumerate(world.members.present()):
        member.backlog = {nodes[(at + more) % hosts]: 10**6 * more for more in (3, 1, 2)} | {nodes[at - 1]: 0}
    return world


def put_anew(world: World, now_ns: int) -> list[str]:
    """Another policy comes into force; returns what was done meanwhile."""
    nodes = [member.node for member in world.members.present()]
    assert world.granting.network is not None
    world.granting.renew(world.settings, now_ns)
    world.granting.set_network(world.granting.network, now_ns)
    world.sent.clear()
    done: list[str] = []
    regulated = {node: frozenset(nodes) - {node} for node in nodes}
    world.granting.inform(regulated, frozenset(), now_ns, lambda: done.append("leads"))
    return done


def test_a_fresh_policy_hears_what_waits_at_thousands_in_a_few_calls_and_the_lease_is_renewed_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told one by one, each member had all regulated pairs told anew: 3 to 6 s for 2,400 senders with eight destinations."""
    told: list[int] = []
    hears = Batched.backlogs

    def hear(policy: Batched, nodes: NDArray[Any], *rest: NDArray[Any], now_ns: int) -> None:
        told.append(len(nodes))
        hears(policy, nodes, *rest, now_ns=now_ns)

    monkeypatch.setattr(Batched, "backlogs", hear)
    world = many(2 * INFORMED_AT_ONCE + 2, "timeslice")
    world.granting.distrust(frozenset((16,)), 0)
    told.clear()
    assert put_anew(world, 20 * MS) == ["leads"] * 3
    assert told == [INFORMED_AT_ONCE, INFORMED_AT_ONCE, 1]
    assert world.grants(), "and plans"


@pytest.mark.parametrize("policy", ["timeslice", "hybrid", "steps", "rate_limit", "auto"])
def test_a_fresh_policy_grants_the_same_whether_it_hears_of_all_together_or_one_by_one(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = many(24, policy)
    put_anew(together, 20 * MS)
    monkeypatch.setattr("controller.policies.why_missing", lambda: "the references in Python")
    one_by_one = many(24, policy)
    assert not isinstance(one_by_one.granting.policy, Batched)
    put_anew(one_by_one, 20 * MS)
    assert together.sent == one_by_one.sent and len(together.grants()) >= 12


def test_what_the_loop_told_the_policy_before_is_told_anew_and_nothing_later() -> None:
    """Several batches come as one: some of it from before a fresh policy was told all that waits, some from after."""
    world = World()
    later = {17}

    class Known:
        @staticmethod
        def has_later(node: int, then_ns: int) -> bool:
            return node in later and then_ns < 50

    world.granting._exchange, world.granting._informed_ns = Known(), 100  # type: ignore[assignment]
    given = np.array([(1, 16, 18, 0, 5), (2, 16, 18, 0, 6), (3, 17, 18, 0, 7)], np.int64)
    batch = Batch(
        0, np.frombuffer(given.tobytes(), RETURNED), np.zeros(3, np.uint8), [90, 110, 40],
        np.array([16, 17, 16, 17], np.uint32), [80, 40, 120, 100], np.array([0, 1, 3, 4, 6], np.uint32),
        np.array([18, 17, 18, 18, 18, 16], np.uint32), np.zeros(6, np.int64), np.zeros(0, OPENED), np.zeros(0, np.uint32),
        None, 0, more=False, proven=False,
    )  # fmt: skip
    untold = world.granting._untold(batch)
    assert untold.yields["slot"].tolist() == [1]
    assert untold.nodes.tolist() == [16, 17] and untold.offsets.tolist() == [0, 1, 3]
    assert untold.destinations.tolist() == [18, 18, 16]


@pytest.mark.parametrize("yields", [False, True])
def test_in_a_batch_a_slot_opens_after_the_bytes_for_it_began_to_wait_and_before_what_is_said_later(yields: bool) -> None:
    world = World()
    telemetry = world.granting._telemetry
    slots = [Slot(number, 16, 18, start_ns, start_ns + MS, 1_000, 0, 0) for number, start_ns in ((1, 2 * MS), (2, 6 * MS))]
    for slot in slots:
        telemetry.granted(slot, slot.end_ns, MS)
    given = np.array([(1, 16, 18, 0, 5)] if yields else np.zeros((0, 5)), np.int64)
    rows = np.array([(*astuple(slot), slot.start_ns, 16, 0) for slot in slots], np.int64)
    waiting = 0 if yields else 1
    batch = Batch(
        0, np.frombuffer(given.tobytes(), RETURNED), np.ones(len(given), np.uint8), [3 * MS] * len(given),
        np.array([16] * waiting, np.uint32), [MS] * waiting, np.array([0, 1][: waiting + 1], np.uint32),
        np.array([18] * waiting, np.uint32), np.full(waiting, 5, np.int64), np.frombuffer(rows.tobytes(), OPENED),
        np.zeros(0, np.uint32), None, 0, more=False, proven=False,
    )  # fmt: skip
    world.granting.take(batch, 7 * MS)
    assert telemetry.waiting.sum_ns == (3 * MS if yields else 4 * MS)
    assert telemetry._since[16] == {18: 7 * MS}
