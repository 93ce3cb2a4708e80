"""What a link carries, by everything that is known of it, and what members may put on it beside hosts without an agent."""

from __future__ import annotations

from typing import Any

from controller.config.settings import CoordinatorSettings
from controller.members.part import SUMMARY_NS, Parts
from controller.members.registry import Members
from controller.scheduling.granting import Granting
from controller.scheduling.links.capacities import Capacities
from controller.scheduling.network import FabricNetwork
from controller.scheduling.regulation import Regulation
from controller.scheduling.telemetry import Telemetry
from protocol.timers import Timers
from topology import shapes
from topology.capacity import MEMBER_RATE, PORT_SPEED, Capacity
from topology.fabric import DirectedLink
from topology.paths import Routes
from topology.spanning_tree import Tree

SECOND = 10**9
MBIT = 10**6
LINK = DirectedLink("s1", "h4")


class World:
    """h1, h2 and h4 of four hosts at a switch are members, and say that they send at `rate_mbps`; the ports say 100."""

    def __init__(self, rate_mbps: int = 100) -> None:
        settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=None, store="")  # type: ignore[arg-type]
        self.members, self.timers, self.parts = Members(), Timers(), Parts()
        members, timers = self.members, self.timers
        for number in (1, 2, 4):
            members.register(bytes([2, 0, 0, 0, 0, number]), f"h{number}", rate_mbps * MBIT, (), "tbf", "1", 0)
        fabric = shapes.build("star", hosts=4, rate_bps=100 * MBIT)
        sources = {direction: PORT_SPEED for link in fabric.links for direction in link.directions}
        routes = Routes(fabric, Tree.from_blocked(fabric, ()))
        self.remade = lambda: FabricNetwork(fabric, routes, members.present(), sources)
        self.network = self.remade()
        self.told: list[dict[str, Any]] = []
        self.granting = Granting(settings, members, lambda *_: None, Telemetry(lambda _: True))
        self.regulation = Regulation(settings, members, timers, lambda *_: None, self.granting, self.parts)
        self.capacities = Capacities(timers, self.granting, self.regulation, self.told.append)
        self.parts.add(self.capacities)
        self.now_ns = SECOND
        self.capacities.set_network(self.network, self.now_ns)

    def read(self, carried_mbps: dict[str, int], dropped: int = 0, elsewhere_mbps: int = 0) -> None:
        """A quarter of a second goes by: what each host sent, all but `elsewhere_mbps` of h1's of it to h4."""
        self.now_ns += SECOND // 4
        self.capacities.reported(16, {18: 0, 17: elsewhere_mbps * MBIT // 32}, frozenset())
        loads = {(host, "s1"): mbps for host, mbps in carried_mbps.items()}
        loads[LINK] = min(100, sum(carried_mbps.values()) - elsewhere_mbps)
        links = [{"source": a, "target": b, "load_bps": mbps * MBIT, "dropped": 0} for (a, b), mbps in loads.items()]
        links[-1]["dropped"] = dropped
        self.capacities.documents["ports"]({"links": links}, self.now_ns)

    def left_mbps(self) -> float:
        assert self.granting.network is not None
        return self.granting.network.capacity_bps(LINK) / MBIT

    def row(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.capacities.status()["links"]
        return next(row for row in found if (row["source"], row["target"]) == LINK)


def test_a_members_rate_bounds_both_directions_of_its_own_link() -> None:
    network = World(rate_mbps=40).network
    assert network.capacity(LINK) == network.capacity(DirectedLink("h4", "s1")) == Capacity(40 * MBIT, MEMBER_RATE)
    assert network.capacity(DirectedLink("s1", "h3")) == Capacity(100 * MBIT, PORT_SPEED)


def test_a_rate_above_the_ports_speed_raises_nothing() -> None:
    assert World(rate_mbps=400).network.capacity(LINK) == Capacity(100 * MBIT, PORT_SPEED)


def test_what_a_host_without_an_agent_sends_is_taken_off_within_a_second_and_shown() -> None:
    world = World()
    world.read({"h1": 49, "h2": 49, "h3": 0})
    for _ in range(3):
        world.read({"h1": 49, "h2": 49, "h3": 30})
    assert world.left_mbps() == 70
    assert world.row() == {
        "source": "s1", "target": "h4", "capacity_bps": 100 * MBIT, "from": "port speed", "unmanaged_bps": 30 * MBIT
    }  # fmt: skip


def test_what_a_member_sends_elsewhere_is_not_taken_for_its_own_here() -> None:
    world = World()
    for _ in range(4):
        world.read({"h1": 60, "h2": 20, "h3": 30}, elsewhere_mbps=40)
    assert world.left_mbps() == 70


def test_what_a_host_without_an_agent_sends_elsewhere_is_not_taken_off() -> None:
    world = World()
    for _ in range(8):
        world.read({"h1": 60, "h2": 30})
    assert world.left_mbps() == 100


def test_a_network_that_is_made_anew_keeps_what_is_taken_off() -> None:
    world = World()
    for _ in range(4):
        world.read({"h1": 30, "h2": 30, "h3": 30})
    world.capacities.set_network(world.network, world.now_ns)
    assert world.left_mbps() == 70


def test_what_a_host_sent_before_its_agent_started_is_given_back_when_it_joins() -> None:
    world = World()
    for _ in range(4):
        world.read({"h1": 30, "h2": 30, "h3": 30})
    world.members.register(bytes([2, 0, 0, 0, 0, 3]), "h3", 100 * MBIT, (), "tbf", "1", world.now_ns)
    world.capacities.set_network(world.remade(), world.now_ns)
    assert world.left_mbps() == 100
    for _ in range(4):
        world.read({"h1": 30, "h2": 30, "h3": 30})
    assert world.left_mbps() == 100


def test_a_single_sender_needs_permission_where_others_leave_it_less_than_its_rate() -> None:
    world = World()
    for _ in range(4):
        world.read({"h1": 69, "h3": 30})
    world.regulation.congestion.report(16, {18: (69 * MBIT, 10**6)}, now_ns=world.now_ns)
    assert world.regulation.congestion.regulated(now_ns=world.now_ns)[16] == {18}


def test_a_link_that_drops_below_its_capacity_is_an_event() -> None:
    world = World()
    for _ in range(6):
        world.read({"h1": 30, "h2": 30}, dropped=20)
    (told,) = world.told
    assert told["event"][:2] == ["link_drops", "warning"] and "at 60.0 Mbit/s" in told["event"][2]


def test_without_readings_nothing_of_pairs_is_kept() -> None:
    """There may be millions of pairs, and no OpenFlow switch whose readings would take what they sent."""
    world = World()
    look = dict(world.capacities.periodic)[SUMMARY_NS]
    for read in (False, True):
        if read:
            world.read({"h1": 0, "h2": 0, "h3": 0})
            world.capacities.reported(16, {18: 1_000}, frozenset())
            look(world.now_ns)
            assert world.capacities._sent == {16: {18: 1_000}}
        world.capacities.reported(16, {18: 1_000}, frozenset())
        world.now_ns += 6 * SECOND
        look(world.now_ns)
        assert not world.capacities._sent
