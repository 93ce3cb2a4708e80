"""Readings of ports beside what was permitted: windows, verdicts in the documents, and the turns of a suspect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import SUMMARY_NS
from controller.members.registry import Members
from controller.policies.base import Slot
from controller.policies.groups import Groups
from controller.scheduling.granting import Granting
from controller.scheduling.misbehaviour import AFTER
from controller.scheduling.network import FabricNetwork
from controller.scheduling.policing import CYCLE_NS, FLOODS_NS, OPEN_NS, PERIOD_NS, Policing
from controller.scheduling.telemetry import Telemetry
from protocol.timers import Timers
from topology import shapes
from topology.paths import Routes
from topology.spanning_tree import Tree

SECOND = 1_000_000_000
MBIT = 1_000_000
LINK = ("s1", "h3")


class World:
    """Three hosts at a switch; both others send to h3, whose link is contended."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 -- fields of the settings
        self.settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=None, store="", **settings)  # type: ignore[arg-type]
        self.members = Members()
        for number in (1, 2, 3):
            self.members.register(bytes([2, 0, 0, 0, 0, number]), f"h{number}", 100 * MBIT, (), "tbf", "1", 0)
        fabric = shapes.build("star", hosts=3, rate_bps=100 * MBIT)
        self.network = FabricNetwork(fabric, Routes(fabric, Tree.from_blocked(fabric, ())), self.members.present())
        self.granting = Granting(self.settings, self.members, lambda *_: None, Telemetry(lambda _: True))
        self.granting.set_network(self.network, 0)
        self.link = self.network.path(16, 18)[-1]
        regulated = Groups(frozenset({self.link}), self.network)
        congestion = SimpleNamespace(contended=lambda: frozenset({self.link}))
        self.regulation = SimpleNamespace(regulated=regulated, congestion=congestion)
        self.told: list[dict[str, Any]] = []
        self.timers = Timers()
        self.policing = Policing(self.granting, self.members, self.regulation, self.told.append, self.timers.at)  # type: ignore[arg-type]
        self.now_ns = SECOND
        self.slot = 0

    def second(self, permitted_mbps: dict[int, int], seen_mbps: dict[str, int]) -> None:
        """A second goes by in four readings, with slots and bytes as given."""
        for _ in range(4):
            for node, mbps in permitted_mbps.items():
                self.slot += 1
                size = mbps * MBIT // 32
                slot = Slot(self.slot, node, 18, self.now_ns, self.now_ns + 1, size, 0, 0)
                self.granting.permitted.granted(slot, slot.end_ns, self.now_ns)
            self.now_ns += SECOND // 4
            loads = [("h1", "s1", seen_mbps["h1"]), ("h2", "s1", seen_mbps["h2"]), ("s1", "h3", sum(seen_mbps.values()))]
            links = [{"source": a, "target": b, "load_bps": mbps * MBIT, "dropped": 0} for a, b, mbps in loads]
            self.policing.documents["ports"]({"links": links}, self.now_ns)

    def events(self) -> list[str]:
        return [told["event"][2] for told in self.told]


def test_a_host_whose_slots_stay_empty_is_named_and_the_honest_one_is_not() -> None:
    world = World()
    for _ in range(5):
        world.second({16: 48, 17: 48}, {"h1": 0, "h2": 48})
    assert "does not use its slots" in world.policing.of_member(16)["suspect"][0]
    assert world.policing.of_member(17)["suspect"] == []
    assert len(world.events()) == 1 and world.events()[0].startswith("h1: does not use")


def test_a_host_that_says_more_than_is_read_of_one_is_told_once_and_named_while_it_does() -> None:
    world = World()
    ((_, look),) = [call for call in world.policing.periodic if call[0] == FLOODS_NS]
    member = world.members.get(16)
    assert member is not None
    for excess, named in ((0, False), (5, True), (9, True), (9, False)):
        member.figures.excess = excess
        look(world.now_ns)
        lines = world.policing.of_member(16)["suspect"]
        assert bool(lines) is named and (not named or f"{excess} of its frames were left" in lines[0])
    assert world.events() == ["h1 says more than is read of one host; end its agent, or revoke its key"]
    assert world.policing.of_member(17)["suspect"] == []


def test_bytes_beyond_the_permission_are_counted_on_the_contended_link() -> None:
    world = World()
    for _ in range(5):
        world.second({16: 30, 17: 30}, {"h1": 60, "h2": 30})
    bypass = world.policing.status()["bypass"]
    assert [(link["source"], link["target"], link["alarm"]) for link in bypass] == [("s1", "h3", True)]
    assert bypass[0]["uncoordinated_bytes"] > 0.3 * bypass[0]["regulated_bytes"]
    assert world.policing.misbehaviour.suspects() == {16}


def test_members_that_share_a_port_are_judged_by_what_was_permitted_to_all_of_them() -> None:
    world = World()
    other = world.members.register(bytes([2, 0, 0, 0, 1, 9]), "h1", 100 * MBIT, (), "tbf", "1", 0)
    world.network.add(other)
    for _ in range(2 * AFTER):
        world.second({16: 24, other.node: 24, 17: 40}, {"h1": 48, "h2": 40})
    assert world.told == []
    for _ in range(2 * AFTER):
        world.second({16: 12, other.node: 12, 17: 40}, {"h1": 36, "h2": 40})
    assert world.policing.misbehaviour.suspects() == {16, other.node}
    (crossed,) = world.policing.misbehaviour.crossed.values()
    assert 0 < crossed.uncoordinated <= 2 * AFTER * 12 * MBIT // 8, "what the port carried too much counts once"


def test_nobody_is_judged_while_every_gate_is_open() -> None:
    world = World()
    world.granting.suspended = True
    for _ in range(6):
        world.second({}, {"h1": 60, "h2": 60})
    assert world.told == [] and world.policing.status()["bypass"] == []


def test_nobody_is_judged_by_a_policy_without_slots() -> None:
    world = World(policy="free")
    for _ in range(6):
        world.second({}, {"h1": 60, "h2": 60})
    assert world.told == []


def test_a_host_that_became_regulated_in_the_window_is_not_judged_by_it() -> None:
    world = World()
    for turn in range(12):
        links = {world.link} if turn % 2 else {world.link, world.network.path(16, 17)[-1]}
        world.regulation.regulated = Groups(frozenset(links), world.network)
        world.second({17: 48}, {"h1": 50, "h2": 48})
    assert world.policing.misbehaviour.suspects() == frozenset()


def test_nobody_is_charged_with_a_rate_that_is_renewed_before_it_ends() -> None:
    """Both leases are in force by their times; only the newer one is."""
    world = World(policy="rate_limit")
    for _ in range(2 * AFTER):
        for at in range(world.now_ns, world.now_ns + SECOND, SECOND // 20):
            for node in (16, 17):
                world.slot += 1
                lease = Slot(world.slot, node, 18, at, at + SECOND // 10, 0, 48 * MBIT, 48 * MBIT)
                world.granting.permitted.granted(lease, lease.end_ns, at)
        world.second({}, {"h1": 47, "h2": 10})
    assert world.told == []
    for _ in range(2 * AFTER):
        world.second({}, {"h1": 97, "h2": 0})  # the leases are over
    assert world.policing.misbehaviour.suspects() == {16}


def test_readings_far_apart_say_nothing() -> None:
    world = World()
    for _ in range(6):
        world.second({16: 48, 17: 48}, {"h1": 0, "h2": 48})
        world.now_ns += 20 * SECOND
    assert world.told == []


def test_without_readings_nothing_of_pairs_is_kept() -> None:
    """There may be millions of pairs, and no OpenFlow switch whose readings would end a window."""
    world = World()
    look = dict(world.policing.periodic)[SUMMARY_NS]
    for read in (False, True, False):
        if read:
            world.second({16: 48, 17: 48}, {"h1": 48, "h2": 48})
            world.policing.reported(16, {18: 1_000}, frozenset())
            assert dict(world.policing._sent) == {(16, 18): 1_000}
        world.now_ns += 6 * SECOND
        look(world.now_ns)
        world.policing.reported(16, {18: 1_000}, frozenset())
        slot = Slot(1_000 + world.slot, 16, 18, world.now_ns, world.now_ns + 1, 9, 0, 0)
        world.granting.permitted.granted(slot, slot.end_ns, world.now_ns)
        world.now_ns += 6 * SECOND
        look(world.now_ns)
        assert not world.policing._sent and world.granting.permitted.take(world.now_ns) == ({}, {})


def test_nothing_wakes_the_coordinator_while_nobody_is_a_suspect() -> None:
    world = World()
    world.second({16: 48, 17: 48}, {"h1": 48, "h2": 48})
    assert not world.timers
    for _ in range(4):
        world.second({16: 48, 17: 48}, {"h1": 0, "h2": 48})
    assert world.timers
    world.policing.left(16, world.now_ns)
    world.timers.run(world.now_ns + PERIOD_NS)
    assert not world.timers


def test_a_suspect_that_leaves_and_comes_back_is_one_still() -> None:
    world = World()
    for _ in range(4):
        world.second({16: 48, 17: 48}, {"h1": 0, "h2": 48})
    world.policing.left(16, world.now_ns)
    world.timers.run(world.now_ns + PERIOD_NS)
    assert not world.timers
    world.policing.joined(16)
    shut = (world.now_ns // CYCLE_NS + 1) * CYCLE_NS + OPEN_NS
    world.timers.run(shut)
    assert not world.granting.trusts(16) and world.granting.trusts(17)


def test_a_suspect_is_believed_for_a_fifth_of_the_time_and_the_others_always() -> None:
    world = World()
    for _ in range(4):
        world.second({16: 48, 17: 48}, {"h1": 0, "h2": 48})
    heard: list[tuple[int, dict[int, int], int]] = []
    for node in (16, 17):
        member = world.members.get(node)
        assert member is not None
        member.backlog = {18: 1_000_000}
    world.granting.policy.backlog = lambda node, backlog, *, now_ns, **_: heard.append((node, dict(backlog), now_ns))  # type: ignore[method-assign]
    start = (world.now_ns // CYCLE_NS + 1) * CYCLE_NS
    for at in range(start, start + 4 * CYCLE_NS, PERIOD_NS):
        world.timers.run(at)
    assert {node for node, _, _ in heard} == {16}
    opened = [now for _, backlog, now in heard if backlog]
    shut = [now for _, backlog, now in heard if not backlog and now > opened[0]]
    assert [later - at for at, later in zip(opened, shut, strict=False)] == [OPEN_NS] * len(opened)
