"""A member that joins behind contended links is regulated and granted slots, under every policy with slots."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agents.permission.regulated import GroupsCopy
from controller.config.settings import CoordinatorSettings
from controller.members.part import SWEEP_NS, Parts
from controller.members.registry import Members
from controller.scheduling.granting import Granting
from controller.scheduling.links.capacities import Capacities
from controller.scheduling.policy_control import PolicyControl
from controller.scheduling.regulation import MANY, REST, Regulation
from controller.scheduling.telemetry import Telemetry
from protocol.bodies.groups import GroupsChange, GroupsRequest
from protocol.messages import HEARTBEAT_MAC, Backlog, Directive, FlowReport, Regulate, Report
from protocol.timers import REFRESH_NS, Timers
from topology import shapes

MS = 1_000_000
GBIT = 1_000_000_000


class World:
    """A coordinator's parts that decide, on a fabric of racks whose hosts register one by one."""

    def __init__(self, policy: str, racks: int = 2, hosts: int = 3, mode: str = "on_demand") -> None:
        settings = CoordinatorSettings(
            interface="c0", attachment="s1:c0", key_file=None, store="", policy=policy, mode=mode,  # type: ignore[arg-type]
        )  # fmt: skip
        self.members, self.timers, self.parts = Members(), Timers(), Parts()
        self.sent: list[tuple[Any, bytes]] = []

        def send(message: Any, to: bytes) -> None:  # noqa: ANN401 -- any message
            self.sent.append((message, to))

        self.granting = Granting(settings, self.members, send, Telemetry(lambda _: True))
        self.regulation = Regulation(settings, self.members, self.timers, send, self.granting, self.parts)
        capacities = Capacities(self.timers, self.granting, self.regulation, lambda _: None)
        control = PolicyControl(settings, self.members, self.granting, self.regulation, capacities, lambda _: None)
        self.control = control
        self.parts.add(control, self.granting, self.regulation, capacities)
        self.fabric = shapes.build("xco_racks", racks=racks, hosts_per_rack=hosts)
        self.now_ns = 0
        self.timers.every(0, 24 * MS, control.update)
        control.documents["fabric"]({"fabric": self.fabric.to_dict()}, 0)
        self.parts.begin(self.timers, 0)
        self.go()

    def go(self, by_ns: int = 25 * MS) -> None:
        self.now_ns += by_ns
        self.timers.run(self.now_ns)

    def join(self, host: int, *, groups: bool = True) -> int:
        mac = b"\x02\x00\x00\x00" + host.to_bytes(2, "big")
        member = self.members.register(mac, f"h{host}", GBIT, (), "tbf", "1", self.now_ns)
        self.parts.joined(member.node)
        if groups:
            self.regulation.handlers[GroupsRequest](member, GroupsRequest(0), self.now_ns)
        return member.node

    def plug(self, machine: int, name: str, rate_bps: int = GBIT) -> int:
        """Has a machine, by the last byte of its address, register as a host: for the first time, or as another one."""
        mac = b"\x06\x00\x00\x00\x00" + bytes([machine])
        member = self.members.register(mac, name, rate_bps, (), "tbf", "1", self.now_ns)
        self.parts.joined(member.node)
        self.go()
        return member.node

    def congest(self, senders: list[int], receiver: int) -> None:
        for node in senders:
            report = Report(50 * MS, 0, 1, (FlowReport(receiver, 6_000_000, 100_000),), ())
            self.regulation.handlers[Report](self.members.get(node), report, self.now_ns)  # type: ignore[arg-type]

    def kinds(self) -> list[type]:
        return [type(message) for message, _ in self.sent]


@pytest.mark.parametrize("policy", ["timeslice", "rate_limit", "hybrid", "auto"])
def test_it_is_granted_slots_towards_a_link_that_was_contended_before(policy: str) -> None:
    world = World(policy)
    first = [world.join(host) for host in (1, 2, 3)]
    world.congest(first[1:], first[0])
    world.go()
    assert world.regulation.congestion.contended()
    late = world.join(5)
    world.go()
    assert first[0] in world.regulation.regulated[late]
    world.sent.clear()
    member = world.members.get(late)
    assert member is not None
    for _ in range(20):
        world.granting.handlers[Backlog](member, Backlog(1, 0, 1, ((first[0], 100_000, 0),)), world.now_ns)
        world.granting.plan(world.now_ns)
        world.go(3 * MS)
    assert any(type(message) is Directive and to == member.mac for message, to in world.sent)


def test_a_change_goes_to_all_once_and_hosts_that_know_groups_get_no_list() -> None:
    world = World("timeslice", racks=4, hosts=10)
    nodes = [world.join(host) for host in range(1, 41)]
    world.go()
    world.sent.clear()
    world.congest(nodes[1:3], nodes[0])
    for _ in range(6):
        world.go()
    told = [to for message, to in world.sent if type(message) is GroupsChange]
    assert told and set(told) == {HEARTBEAT_MAC} and len(told) <= 4
    assert Regulate not in world.kinds()
    world.sent.clear()
    world.join(40)
    for _ in range(6):
        world.go()
    assert not [to for message, to in world.sent if type(message) is GroupsChange and to == HEARTBEAT_MAC]
    assert Regulate not in world.kinds()


def test_a_host_that_does_not_ask_for_groups_gets_its_destinations_and_hears_of_those_that_join() -> None:
    world = World("timeslice")
    world.join(1, groups=False)
    world.go()
    assert Regulate not in world.kinds(), "it may still ask"
    for _ in range(5):
        world.go(REFRESH_NS)
    others = [world.join(host) for host in (2, 3, 4)]
    world.congest([others[0], others[1]], others[2])
    world.go()
    told = [message.destinations for message, to in world.sent if type(message) is Regulate]
    assert told and told[-1] == (others[2],)
    world.sent.clear()
    world.join(5)
    world.go()
    world.go()
    assert [m.destinations for m, _ in world.sent if type(m) is Regulate][-1][0] == others[2]


def test_the_policy_hears_of_many_that_join_together_not_of_each_with_the_next_report() -> None:
    world = World("timeslice", racks=4, hosts=12)
    first = [world.join(host) for host in (1, 2, 3)]
    world.congest(first[1:], first[0])
    world.go()
    policy, heard = world.granting.policy, list[int]()
    told = policy.set_regulated
    policy.set_regulated = lambda pairs, *, now_ns: (heard.append(now_ns), told(pairs, now_ns=now_ns))  # type: ignore[method-assign,assign]
    late = []
    for host in range(13, 33):
        late.append(world.join(host))
        world.now_ns += 10_000
        world.congest(first[1:2], first[0])
    assert len(heard) <= 1
    world.go()
    assert 1 <= len(heard) <= 2 and all(first[0] in world.regulation.regulated[node] for node in late)


def test_where_all_pairs_need_permission_those_who_join_later_are_told_so() -> None:
    world, copy = World("timeslice", mode="always"), GroupsCopy()
    nodes = [world.join(host) for host in (1, 2, 3)]
    for _ in range(4):
        world.go()
    copy.set_node(nodes[0])
    for message, _ in world.sent:
        if type(message) is GroupsChange:
            copy.take(message)
    assert [node in copy for node in nodes] == [False, True, True]


def test_a_member_that_loses_its_place_needs_no_permission_until_it_has_one_again() -> None:
    world, copy = World("timeslice"), GroupsCopy()

    first, second, third = world.plug(1, "h1"), world.join(2), world.join(3)
    world.go()
    copy.set_node(second)
    for name, here in (("h1", True), ("a name that the fabric has not", False), ("h1", True)):
        world.plug(1, name)
        world.congest([second, third], first)
        for _ in range(4):
            world.go()
        for message, _ in world.sent:
            if type(message) is GroupsChange:
                copy.take(message)
        granted, asks = world.regulation.regulated.has(second, first), first in copy
        assert (granted, asks) == (here, here), "whoever waits for permission is given it"


def test_a_link_that_was_read_before_its_member_joined_is_contended_by_the_members_rate() -> None:
    world = World("timeslice")
    senders = [world.join(host) for host in (1, 2)]
    link = (world.fabric.attachment("h3"), "h3")
    reading = {"source": link[0], "target": link[1], "load_bps": 1_000, "dropped": 0}
    world.regulation.documents["ports"]({"links": [reading]}, world.now_ns)
    member = world.members.register(b"\x02\x00\x00\x00\x00\x03", "h3", GBIT // 10, (), "tbf", "1", world.now_ns)
    world.parts.joined(member.node)
    for node in senders:
        report = Report(50 * MS, 0, 1, (FlowReport(member.node, 500_000, 0),), ())  # 80 Mbit/s
        world.regulation.handlers[Report](world.members.get(node), report, world.now_ns)  # type: ignore[arg-type]
    world.go()
    assert world.regulation.congestion.contended() == {link}


def test_what_a_member_takes_with_it_from_the_link_that_it_shared_is_granted_no_more() -> None:
    world = World("timeslice")

    stays, leaves = (world.plug(machine, "h1", GBIT // 10) for machine in (1, 2))
    sender, other = world.join(2), world.join(3)
    world.congest([sender, other], stays)
    world.go()

    def reserved_bps() -> int:
        """What a slot towards the member that stays takes of its link."""
        world.go(500 * MS)
        world.granting.policy.backlog(sender, {stays: 10**6}, now_ns=world.now_ns)
        slots = world.granting.policy.plan(now_ns=world.now_ns, horizon_ns=world.now_ns + 20 * MS).grants
        return max(slot.reserved_bps for slot in slots)

    assert reserved_bps() == GBIT // 5
    world.members.leave(leaves)
    world.parts.left(leaves, world.now_ns)
    world.go()
    assert reserved_bps() == GBIT // 10


def test_the_status_shows_the_rate_of_a_member_that_joined_and_no_more_when_it_left() -> None:
    world = World("timeslice")

    def bounded() -> list[int]:
        return [link["capacity_bps"] for link in world.parts.status()["links"] if link["from"] == "member's rate"]

    assert bounded() == []
    member = world.members.register(b"\x02\x00\x00\x00\x00\x01", "h1", GBIT // 2, (), "tbf", "1", world.now_ns)
    world.parts.joined(member.node)
    assert bounded() == 2 * [GBIT // 2]
    world.members.leave(member.node)
    world.parts.left(member.node, world.now_ns)
    assert bounded() == []


def test_the_list_of_all_links_is_the_same_one_unless_a_member_that_joined_changes_a_row() -> None:
    world = World("timeslice")
    before = world.parts.status()["links"]
    world.join(1)
    assert world.parts.status()["links"] is before, "its rate is what the fabric says of its link"
    member = world.members.register(b"\x02\x00\x00\x00\x00\x02", "h2", GBIT // 2, (), "tbf", "1", world.now_ns)
    world.parts.joined(member.node)
    after = world.parts.status()["links"]
    assert len(after) == len(before) and len([row for row in after if row not in before]) == 2


def test_many_that_ask_for_the_groups_are_answered_together_and_a_few_one_by_one() -> None:
    world = World("timeslice", racks=2, hosts=4)
    for host in range(1, 9):
        world.join(host, groups=False)
    members = world.members.present()

    def answers(askers: int, version: int = 0) -> list[bytes]:
        world.go()
        world.sent.clear()
        for member in members[:askers]:
            world.regulation.handlers[GroupsRequest](member, GroupsRequest(version), world.now_ns)
        world.go()
        return [mac for message, mac in world.sent if isinstance(message, GroupsChange)]

    assert answers(2) == [member.mac for member in members[:2]]
    assert answers(8) == [HEARTBEAT_MAC]
    members = members[:1] * MANY
    assert answers(MANY) == [members[0].mac], "one that asks again and again is one"


def test_after_conclusions_that_took_long_the_next_ones_wait_so_that_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("timeslice")
    first = [world.join(host) for host in range(1, 7)]
    take = world.granting.policy.set_regulated

    def slowly(*given: Any, **named: Any) -> None:  # noqa: ANN401 -- as they come
        time.sleep(0.005)
        take(*given, **named)

    monkeypatch.setattr(world.granting.policy, "set_regulated", slowly)
    world.go()
    world.congest(first[1:3], first[0])
    world.go(by_ns=MS)
    links = world.regulation.regulated.links
    assert links
    world.congest(first[3:5], first[5])
    world.go(by_ns=MS)
    assert world.regulation.regulated.links == links, "these took 5 ms, so none follow for 20"
    world.go(by_ns=25 * MS)
    assert world.regulation.regulated.links > links


def test_after_conclusions_that_took_long_the_next_ones_wait_also_at_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    world, clock_ns, drawn = World("timeslice"), [0], []

    def conclude(now_ns: int) -> None:
        drawn.append(now_ns)
        clock_ns[0] += took_ns

    monkeypatch.setattr("controller.scheduling.regulation.time.perf_counter_ns", lambda: clock_ns[0])
    monkeypatch.setattr(world.regulation, "_conclude", conclude)
    for took_ns in (0, 50 * MS):
        world.regulation.update(world.now_ns)
        drawn.clear()
        for _ in range(40):
            world.now_ns += SWEEP_NS
            for _, sweep in world.control.periodic:
                sweep(world.now_ns)
        assert len(drawn) == (40 if not took_ns else 40 * SWEEP_NS // (REST * took_ns + SWEEP_NS))
    drawn.clear()
    world.control.update(world.now_ns)
    assert drawn == [world.now_ns], "what an operator says is not put off"


def test_a_weight_goes_by_the_host_and_not_by_the_node_id_that_it_had() -> None:
    world = World("timeslice", mode="always")
    world.control.documents["policy"]({"weights": [["h1", "", 8.0]]}, world.now_ns)
    world.go()

    first, receiver = world.plug(1, "h1"), world.plug(2, "h2")
    world.members.leave(first)
    world.parts.left(first, world.now_ns)
    world.go()
    moved, other = world.plug(1, "h5"), world.plug(3, "h1")
    assert moved == first
    for node in (moved, other):
        told = Backlog(1, 0, 1, ((receiver, 10**6, 0),))
        world.granting.on_backlog(world.members.get(node), told, world.now_ns)  # type: ignore[arg-type]
    slots = world.granting.policy.plan(now_ns=world.now_ns, horizon_ns=world.now_ns + 200 * MS).grants
    longest = {node: max(slot.end_ns - slot.start_ns for slot in slots if slot.node == node) for node in (moved, other)}
    assert longest[other] == 8 * longest[moved]


@pytest.mark.parametrize(
    ("weights", "expected"), [([["h1", "", 8.0]], 1), ([["h1", "h2", 8.0], ["h5", "", 4.0]], 4)], ids=["node", "pair"]
)
def test_a_machine_that_is_another_host_by_now_has_that_ones_weight(weights: list[list[object]], expected: int) -> None:
    world = World("timeslice", mode="always")
    world.control.documents["policy"]({"weights": weights}, world.now_ns)
    world.go()

    first, receiver, other = world.plug(1, "h1"), world.plug(2, "h2"), world.plug(3, "h3")
    world.members.leave(first)
    world.parts.left(first, world.now_ns)
    world.go()
    assert world.plug(1, "h5") == first
    for node in (first, other):
        told = Backlog(1, 0, 1, ((receiver, 10**6, 0),))
        world.granting.on_backlog(world.members.get(node), told, world.now_ns)  # type: ignore[arg-type]
    slots = world.granting.policy.plan(now_ns=world.now_ns, horizon_ns=world.now_ns + 200 * MS).grants
    longest = {node: max(slot.end_ns - slot.start_ns for slot in slots if slot.node == node) for node in (first, other)}
    assert longest[first] == expected * longest[other]


@pytest.mark.parametrize("destination", ["", "h2"])
def test_each_member_at_a_host_has_the_hosts_weight(destination: str) -> None:
    world = World("timeslice", mode="always")
    world.control.documents["policy"]({"weights": [["h1", destination, 8.0]]}, world.now_ns)
    world.go()

    one, another, other, receiver = world.plug(1, "h1"), world.plug(2, "h1"), world.plug(3, "h3"), world.plug(4, "h2")
    for node in (one, another, other):
        world.granting.policy.backlog(node, {receiver: 10**6}, now_ns=world.now_ns)
    slots = world.granting.policy.plan(now_ns=world.now_ns, horizon_ns=world.now_ns + 200 * MS).grants
    longest = {node: max(slot.end_ns - slot.start_ns for slot in slots if slot.node == node) for node in (one, another, other)}
    assert longest[one] == longest[another] == 8 * longest[other]


def test_a_link_is_released_though_all_hosts_are_idle_and_say_nothing_new() -> None:
    world = World("timeslice")
    nodes = [world.join(host) for host in (1, 2, 3)]
    world.congest(nodes[1:], nodes[0])
    world.go()
    assert world.regulation.congestion.contended()
    for node in nodes[1:]:
        idle = Report(50 * MS, 0, 1, (), (), 1)
        world.regulation.handlers[Report](world.members.get(node), idle, world.now_ns)  # type: ignore[arg-type]
    for _ in range(200):
        world.go()
    assert not world.regulation.congestion.contended() and not world.regulation.regulated
