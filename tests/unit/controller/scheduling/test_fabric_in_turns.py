"""A changed fabric of thousands of hosts is read a piece at a time: the loop grants slots meanwhile, by the fabric before."""

from __future__ import annotations

import time
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import Parts
from controller.members.registry import Members
from controller.scheduling.congestion import MOVED_FIRST, MOVED_NEXT, Congestion
from controller.scheduling.granting import Granting
from controller.scheduling.links.capacities import Capacities
from controller.scheduling.network import FabricNetwork
from controller.scheduling.policy_control import AT_ONCE, PAUSE_NS, PolicyControl
from controller.scheduling.regulation import Regulation
from controller.scheduling.telemetry import Telemetry
from protocol.timers import Timers
from topology import shapes
from topology.fabric import DirectedLink, Fabric
from topology.paths import Routes
from topology.pieces import PIECE
from topology.spanning_tree import Tree, compute

RATE = 10**9


class World:
    """The parts that take a fabric, and the members at the hosts of one."""

    def __init__(self, fabric: Fabric) -> None:
        settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=None, store="")  # type: ignore[arg-type]
        self.members, self.timers, parts = Members(), Timers(), Parts()
        self.granting = Granting(settings, self.members, lambda *_: None, Telemetry(lambda _: True))
        regulation = Regulation(settings, self.members, self.timers, lambda *_: None, self.granting, parts)
        capacities = Capacities(self.timers, self.granting, regulation, lambda _: None)
        self.control = PolicyControl(
            settings, self.members, self.granting, regulation, capacities, lambda _: None, self.timers
        )
        self.take(fabric, 0)
        self.control.update(0)
        for number, host in enumerate(fabric.hosts, 1):
            self.join(fabric, host, number)

    def take(self, fabric: Fabric, now_ns: int, blocked: tuple[tuple[str, str], ...] = ()) -> None:
        self.control.documents["fabric"]({"fabric": fabric.to_dict(), "blocked": blocked}, now_ns)

    def join(self, fabric: Fabric, host: str, number: int) -> int:
        mac = b"\x02" + number.to_bytes(5)
        node = self.members.register(mac, host, RATE, tuple(fabric.addresses(host)), "tbf", "1", 0).node
        self.control.joined(node)
        return node

    def turns(self) -> list[float]:
        """How long each turn took (s of the processor) until nothing is left to do."""
        found, now_ns = [], 0
        while self.timers:
            now_ns += PAUSE_NS
            began_s = time.thread_time()
            self.timers.run(now_ns)
            found.append(time.thread_time() - began_s)
        return found


def changed(fabric: Fabric) -> Fabric:
    """The same fabric, in which the first link has half its rate."""
    document = fabric.to_dict()
    document["links"][0]["rate_bps"] //= 2
    return Fabric.from_dict(document)


def test_a_small_one_is_in_force_with_the_next_look() -> None:
    fabric = shapes.build("star", hosts=3, rate_bps=RATE)
    world = World(fabric)
    before = world.granting.network
    world.take(changed(fabric), 1)
    world.control.update(2)
    while world.granting.network is before:
        assert world.timers, "it is under way"
        world.timers.run(world.timers.next_ns())
    assert before is not None


def test_no_piece_of_a_large_one_is_long_and_the_one_before_is_in_force_meanwhile() -> None:
    fabric = shapes.build("star", hosts=2_000, rate_bps=RATE)
    world = World(fabric)
    before, reference = world.granting.network, 0.0
    began_s = time.thread_time()
    Fabric.from_dict(fabric.to_dict())
    reference = time.thread_time() - began_s
    world.take(changed(fabric), 1)
    assert world.granting.network is before
    turns = world.turns()
    assert len(turns) > 3 * 2_000 // (AT_ONCE * PIECE), "it took many turns"
    assert sorted(turns)[-10] < reference / 10, "all but a few are a small part of reading it in one piece"
    assert world.granting.network is not before


def test_who_joins_or_leaves_meanwhile_is_in_the_new_one_or_not() -> None:
    fabric = shapes.build("star", hosts=200, rate_bps=RATE)
    world = World(fabric)
    larger = Fabric.from_dict(shapes.build("star", hosts=201, rate_bps=RATE).to_dict())
    world.take(larger, 1)
    for _ in range(12):
        world.timers.run(world.timers.next_ns())
    gone = world.members.present()[7]
    world.members.leave(gone.node)
    world.control.left(gone.node, 2)
    (new,) = set(larger.hosts) - set(fabric.hosts)
    node = world.join(larger, new, 201)
    world.turns()
    network: Any = world.granting.network
    assert gone.node not in network.nodes and network.hosts[node] == new and len(network.nodes) == 200


def test_what_thousands_report_moves_to_their_new_paths_a_few_at_a_time() -> None:
    asked: list[int] = []

    class Watched(FabricNetwork):
        def path(self, source: int, destination: int) -> tuple[DirectedLink, ...]:
            asked.append(source)
            return super().path(source, destination)

    fabric = shapes.build("star", hosts=1_000, rate_bps=RATE)
    world = World(fabric)
    congestion, members = Congestion(), world.members.present()
    first, second = (Watched(fabric, Routes(fabric, compute(fabric)), members) for _ in range(2))
    congestion.set_network(first, now_ns=0)
    for member in members[1:]:
        congestion.report(member.node, {members[0].node: (RATE // 10, 0)}, now_ns=0)
    assert len(congestion.update(now_ns=0).contended) == 1
    asked.clear()
    congestion.set_network(second, now_ns=1)
    assert 0 < len(asked) <= MOVED_FIRST
    while len(asked) < 999:
        before = len(asked)
        assert not congestion.update(now_ns=2).released
        assert before < len(asked) <= before + MOVED_NEXT
    assert len(congestion.contended()) == 1


def test_a_newer_one_takes_the_place_of_one_that_is_being_read() -> None:
    fabric = shapes.build("star", hosts=200, rate_bps=RATE)
    world = World(fabric)
    world.take(changed(fabric), 1)
    world.timers.run(world.timers.next_ns())
    world.take(changed(changed(fabric)), 2)
    world.turns()
    network: Any = world.granting.network
    first = fabric.to_dict()["links"][0]
    assert network.capacity_bps((first["a"], first["b"])) == RATE // 4


def test_a_fabric_read_in_pieces_is_the_one_that_is_built_by_hand() -> None:
    for fabric in (shapes.build("star", hosts=100, rate_bps=RATE), shapes.build("leaf_spine", leaves=40)):
        read = Fabric.from_dict(fabric.to_dict())
        assert (read, read.hosts, read.switches, read.links) == (fabric, fabric.hosts, fabric.switches, fabric.links)
        assert Tree.from_blocked(read, compute(fabric).blocked) == compute(fabric)
