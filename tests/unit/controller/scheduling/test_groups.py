"""The groups of members that links divide say the same as the list of all pairs, on any tree and whoever joins and leaves."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.members.places import Numbering
from controller.members.registry import FIRST_NODE, Members
from controller.policies.groups import Destinations, Groups
from controller.scheduling.network import FabricNetwork
from topology import shapes
from topology.fabric import DirectedLink, Fabric, FabricBuilder
from topology.paths import Routes
from topology.spanning_tree import Tree, compute

GBIT = 10**9
HOSTS = 8


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Up to five switches, which need not be connected, and eight hosts."""
    builder, switches = FabricBuilder(), draw(st.integers(1, 5))
    for at in range(switches):
        builder.add_switch(f"s{at}")
    for at in range(1, switches):
        if (above := draw(st.integers(-1, at - 1))) >= 0:
            builder.add_link(f"s{at}", f"s{above}", GBIT)
    for at in range(HOSTS):
        builder.add_host(f"h{at}")
        if (switch := draw(st.integers(-1, switches - 1))) >= 0:
            builder.add_link(f"h{at}", f"s{switch}", GBIT)
    return builder.build()


def mac(host: int, agent: int = 0) -> bytes:
    return bytes((2, 0, 0, agent)) + host.to_bytes(2, "big")


class World:
    """A fabric whose members come and go."""

    def __init__(self, fabric: Fabric, numbering: Numbering | None = None) -> None:
        self.fabric, self.members = fabric, Members()
        self.numbering = numbering or Numbering()
        self.network = FabricNetwork(fabric, Routes(fabric, compute(fabric)), (), None, self.numbering)

    def prefer(self) -> None:
        self.members.prefer(self.network.places.preferred, self.numbering.next)

    def join(self, host: int, agent: int = 0) -> None:
        self.network.add(self.members.register(mac(host, agent), f"h{host}", GBIT, (), "tbf", "1", 0))

    def leave(self, host: int, agent: int = 0) -> None:
        if (member := self.members.at(mac(host, agent))) is not None:
            self.members.leave(member.node)
            self.network.remove(member.node)

    def rebuild(self, fabric: Fabric) -> None:
        self.network = FabricNetwork(fabric, Routes(fabric, compute(fabric)), self.members.present(), None, self.numbering)


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, HOSTS + 1), st.integers(0, 1)), max_size=24)


@settings(deadline=None)
@given(st.data())
def test_groups_are_the_pairs_whose_path_crosses_a_link(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    world = World(fabric)
    if data.draw(st.booleans()):
        world.prefer()
    for come, host, agent in data.draw(STEPS):
        (world.join if come else world.leave)(host, agent)
        if data.draw(st.integers(0, 9)) == 0:
            world.rebuild(data.draw(fabrics()))
        network = world.network
        links = sorted(network._routes.links())
        if links:  # what was asked before a change must not be remembered wrongly after it
            network.sides(data.draw(st.sampled_from(links)))
    network, nodes = world.network, sorted(world.network.hosts)
    links = sorted(network._routes.links())
    contended = frozenset(data.draw(st.sets(st.sampled_from(links)))) if links else frozenset[DirectedLink]()
    groups = Groups(contended, network)
    pairs = {(a, b) for a in nodes for b in nodes if contended & set(network.path(a, b))}
    assert {(a, b) for a in nodes for b in nodes if groups.has(a, b)} == pairs
    assert {(a, b) for _, its in groups.products() for a in its.before for b in its.behind if {a, b} <= set(nodes)} == pairs
    assert {(a, b) for a, its in groups.items() for b in its} == pairs
    assert {(a, b) for a in nodes for b in Destinations(groups, a)} == pairs
    assert {a for a, _ in pairs} <= set(groups.senders())


@settings(deadline=None)
@given(st.data())
def test_changed_nodes_are_all_whose_destinations_differ(data: st.DataObject) -> None:
    world = World(data.draw(fabrics()))
    for host in range(HOSTS):
        world.join(host)
    links = sorted(world.network._routes.links())
    some = st.frozensets(st.sampled_from(links)) if links else st.just(frozenset[Any]())
    one, other = Groups(data.draw(some), world.network), Groups(data.draw(some), world.network)
    changed = one.changed_nodes(other)
    assert all(node in changed for node in world.network.hosts if set(one.get(node)) != set(other.get(node)))
    assert one.same(other) == (one.links == other.links)


def test_hosts_behind_a_switch_are_one_interval_in_whatever_order_they_register() -> None:
    fabric = shapes.build("xco_racks", racks=8, hosts_per_rack=4)
    world = World(fabric)
    world.prefer()
    order = [(7 * at) % 32 + 1 for at in range(32)]
    for host in order:
        world.join(host)
    tree = compute(fabric)
    for link in Routes(fabric, tree).links():
        sides = world.network.sides(link)
        assert len(sides.before.intervals()) + len(sides.behind.intervals()) <= 3
        assert len(sides.before) + len(sides.behind) == 32


def test_a_host_that_registers_with_the_id_of_its_place_changes_no_group() -> None:
    world = World(shapes.build("xco_racks", racks=2, hosts_per_rack=2))
    world.prefer()
    link = DirectedLink(*sorted(Routes(world.fabric, compute(world.fabric)).links())[0])
    before = world.network.sides(link)
    world.join(3)
    assert world.network.sides(link) is not None and world.network.sides(link) == before
    assert world.members.at(mac(3)).node == FIRST_NODE + 2  # type: ignore[union-attr]


def test_the_work_of_a_join_does_not_grow_with_the_fabric() -> None:
    """It asks for the ids of the links above the host, and of no others."""
    asked: list[int] = []
    for racks in (4, 40):
        fabric = shapes.build("xco_racks", racks=racks, hosts_per_rack=10)
        world = World(fabric)
        for host in range(1, 10 * racks):  # in the order of registration: no id is that of a place
            world.join(host)
        for link in Routes(fabric, Tree.from_blocked(fabric, ())).links():
            world.network.sides(link)
        known = set(world.network.places._behind)
        world.join(10 * racks)
        asked.append(len(known - set(world.network.places._behind)))
    assert asked[0] == asked[1] <= 6


def test_a_host_whose_own_id_comes_after_another_members_is_on_the_sides_of_its_links() -> None:
    builder = FabricBuilder()
    builder.add_switch("s0")
    for at in range(2):
        builder.add_host(f"h{at}")
        builder.add_link(f"h{at}", "s0", GBIT)
    world = World(builder.build())
    other = world.members.register(mac(9), "h1", GBIT, (), "tbf", "1", 0)  # before ids are preferred: it gets h0's
    world.network.add(other)
    world.prefer()
    link = DirectedLink("s0", "h1")
    assert set(world.network.sides(link).behind) >= {other.node}
    world.join(1)
    own = world.members.at(mac(1))
    assert own is not None and set(world.network.sides(link).behind) == {other.node, own.node}
