"""What MCP takes as the link: the slowest on each way, and the queue from which its port marks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from controller.config.settings import CoordinatorSettings
from controller.members.registry import Members
from controller.priorities.path_limits import PathLimits
from controller.scheduling.network import FabricNetwork
from protocol.messages import Message, Paths
from protocol.timers import Timers
from protocol.units import FRAME_BYTES
from topology import shapes
from topology.paths import Routes
from topology.spanning_tree import compute

SETTINGS = CoordinatorSettings(interface="c0", attachment="s1:1", key_file=Path("k"), store="unix:///s", priorities=True)
USUAL, SLOW = 10**10, 10**9


class World:
    """Four hosts of 10 Gb/s, two at each end of a dumbbell, and what their members were sent."""

    def __init__(self, settings: CoordinatorSettings = SETTINGS, bottleneck_bps: int = SLOW) -> None:
        self.members, self.timers = Members(), Timers()
        self.network: FabricNetwork | None = None
        self.sent: list[tuple[Message, bytes]] = []
        for number in range(1, 5):
            mac = bytes(5) + bytes([number])
            self.members.register(mac, f"h{number}", USUAL, (), "TBF", "1", 0)
        self.made = PathLimits(
            settings, self.members, lambda: self.network, self.timers, lambda *frame: self.sent.append(frame)
        )
        self.bottleneck(bottleneck_bps)

    def bottleneck(self, rate_bps: int) -> None:
        fabric = shapes.build("dumbbell", left=2, right=2, rate_bps=USUAL, bottleneck_bps=rate_bps)
        self.network = FabricNetwork(fabric, Routes(fabric, compute(fabric)), self.members.present())

    def sweep(self, now_ns: int = 0) -> dict[str, Paths]:
        """The paths that members were sent, by name."""
        self.sent.clear()
        self.made.sweep(now_ns)
        names = {member.mac: member.name for member in self.members.present()}
        return {names[to]: cast(Any, message) for message, to in self.sent}


def node(world: World, name: str) -> int:
    return next(member.node for member in world.members.present() if member.name == name)


def test_a_member_is_told_the_usual_path_and_those_that_are_slower() -> None:
    world = World()
    found = world.sweep()
    assert found.keys() == {"h1", "h2", "h3", "h4"}
    near = (node(world, "h2"), USUAL, 65 * FRAME_BYTES)
    assert (found["h1"].rate_bps, found["h1"].marking_bytes, found["h1"].entries) == (SLOW, 20 * FRAME_BYTES, (near,))


def test_where_no_link_is_slower_than_the_hosts_there_is_nothing_to_list() -> None:
    found = World(bottleneck_bps=10 * USUAL).sweep()
    assert {(one.rate_bps, one.entries) for one in found.values()} == {(USUAL, ())}


def test_the_marking_threshold_is_the_configured_one() -> None:
    found = World(replace(SETTINGS, marking_bytes=30_000)).sweep()
    assert {one.marking_bytes for one in found.values()} == {30_000}


def test_it_is_sent_again_when_a_link_changes_and_only_then() -> None:
    world = World()
    world.sweep()
    assert not world.sweep(1)
    world.bottleneck(SLOW // 10)
    assert world.sweep(2)["h1"].rate_bps == SLOW // 10


def test_a_member_that_joins_a_known_fabric_is_told_and_so_are_the_others_if_its_link_is_slow() -> None:
    world = World(bottleneck_bps=10 * USUAL)
    late = world.members.at(bytes(5) + bytes([4]))
    assert late is not None and world.network is not None
    world.network.remove(late.node)
    assert world.sweep().keys() == {"h1", "h2", "h3"}
    late.rate_bps = SLOW
    world.network.add(late)
    world.made.joined(late.node)
    found = world.sweep(1)
    assert found.keys() == {"h1", "h2", "h3", "h4"}
    assert (found["h4"].rate_bps, found["h1"].rate_bps) == (SLOW, USUAL)
    assert found["h1"].entries == ((late.node, SLOW, 20 * FRAME_BYTES),)
    assert not world.sweep(2)


def test_a_member_that_registers_anew_is_told_anew_and_the_others_are_not() -> None:
    world = World()
    world.sweep()
    world.made.joined(node(world, "h2"))
    assert world.sweep(1).keys() == {"h2"}


def test_a_member_that_asks_is_told() -> None:
    world = World()
    world.sweep()
    world.sent.clear()
    member = world.members.present()[0]
    world.made.tell(member)
    ((message, to),) = world.sent
    assert isinstance(message, Paths) and to == member.mac


def test_without_priorities_nobody_is_told_anything() -> None:
    world = World(replace(SETTINGS, priorities=False))
    assert not world.made.periodic
    world.made.tell(world.members.present()[0])
    assert not world.sent
