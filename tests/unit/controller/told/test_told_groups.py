"""What members are told of groups: every host knows its destinations, whatever it missed, and a change is short."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.permission.regulated import SMALL, GroupsCopy
from controller.policies.groups import Groups
from controller.told.groups import ToldGroups
from protocol.bodies.groups import ROWS_MAX, GroupsChange
from protocol.messages import encode
from tests.unit.controller.scheduling.test_groups import HOSTS, World, fabrics
from tests.unit.protocol.protocol_strategies import HOST, KEY, LEADER
from topology import shapes
from topology.fabric import DirectedLink


class Listener:
    """A host that hears some of what goes to all, and asks for the rest now and then."""

    def __init__(self) -> None:
        self.copy = GroupsCopy()
        self.bases = [0]

    def hear(self, told: ToldGroups, heard: bool) -> None:
        if heard:
            for page in told.since(self.bases[0]):
                self.copy.take(page)
        self.bases = [*self.bases, told.version][-3:]

    def ask(self, told: ToldGroups) -> None:
        for page in told.since(max(0, self.copy.version)):
            self.copy.take(page)


@settings(deadline=None)
@given(st.data())
def test_every_host_knows_for_whom_it_needs_permission_whatever_it_missed(data: st.DataObject) -> None:
    world, told, listener = World(data.draw(fabrics())), ToldGroups(), Listener()
    if data.draw(st.booleans()):
        world.prefer()
    for host in range(HOSTS // 2):
        world.join(host)
    me = world.members.present()[0].node
    listener.copy.set_node(data.draw(st.sampled_from([0, me])))
    for _ in range(data.draw(st.integers(1, 6))):
        host = data.draw(st.integers(1, HOSTS - 1))
        (world.join if data.draw(st.booleans()) else world.leave)(host)
        if data.draw(st.integers(0, 5)) == 0:
            world.rebuild(data.draw(fabrics()))
        links = sorted(world.network._routes.links())
        contended = frozenset(data.draw(st.sets(st.sampled_from(links)))) if links else frozenset[DirectedLink]()
        groups = Groups(contended, world.network, everyone=data.draw(st.integers(0, 9)) == 0)
        told.update(groups)
        listener.hear(told, heard=data.draw(st.booleans()))
    listener.copy.set_node(me)
    listener.ask(told)
    if me in world.network.hosts:
        here = world.network.hosts
        assert {node for node in here if node in listener.copy} == {node for node in here if groups.has(me, node)}
    assert told.version == max(0, listener.copy.version)


def contend(racks: int, hosts: int, links: int) -> tuple[World, ToldGroups, frozenset[DirectedLink]]:
    world, told = World(shapes.build("xco_racks", racks=racks, hosts_per_rack=hosts)), ToldGroups()
    world.prefer()
    for host in range(1, racks * hosts + 1):
        world.join(host)
    down = sorted(link for link in world.network._routes.links() if link.target.startswith("h"))
    return world, told, frozenset(down[:links])


def size(pages: list[GroupsChange]) -> int:
    return sum(len(page.rows) for page in pages)


def test_a_change_is_as_long_as_what_changed_and_not_as_the_fabric() -> None:
    sizes = []
    for racks in (2, 40):
        world, told, links = contend(racks, 10, 10)
        told.update(Groups(links, world.network))
        before = told.version
        told.update(Groups(links - {sorted(links)[0]}, world.network))
        sizes.append((size(told.whole()), size(told.since(before))))
    assert sizes[0] == sizes[1]
    assert sizes[0][1] == 1


def test_a_host_that_joins_by_its_place_makes_no_message_at_all() -> None:
    world, told, links = contend(4, 10, 10)
    world.leave(7)
    told.update(Groups(links, world.network))
    version = told.version
    world.join(7)
    assert not told.update(Groups(links, world.network)) and told.version == version


def test_all_links_to_thousands_of_hosts_are_some_dozens_of_frames() -> None:
    world, told, links = contend(60, 40, 2400)
    told.update(Groups(links, world.network))
    assert size(told.whole()) == 2401 and len(told.whole()) == -(-2401 // ROWS_MAX)
    for page in told.whole()[:2]:
        frame = encode(page, key=KEY, destination=HOST, source=LEADER, sender=1, epoch=1, sequence=1)
        assert len(frame) <= 1514
    copy = GroupsCopy()
    copy.set_node(16)
    for page in reversed(told.whole()):
        copy.take(page)
    assert 16 not in copy and all(node in copy for node in range(17, 16 + 2400))


def test_groups_larger_than_are_counted_one_by_one_say_the_same() -> None:
    world, told, _ = contend(3, SMALL + 1, 0)
    link = next(link for link in sorted(world.network._routes.links()) if world.fabric.is_host(link.source) is False
                and link.target != "core" and not world.fabric.is_host(link.target))
    groups = Groups(frozenset({link}), world.network)
    told.update(groups)
    for me in (16, 16 + SMALL + 1, 16 + 2 * (SMALL + 1)):
        copy = GroupsCopy()
        copy.set_node(me)
        for page in told.whole():
            copy.take(page)
        assert {n for n in world.network.hosts if n in copy} == {n for n in world.network.hosts if groups.has(me, n)}


def test_whoever_asks_for_changes_that_are_not_known_any_more_gets_the_one_whole_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile member asks for each version that there ever was: no copy of the state is kept for each."""
    monkeypatch.setattr("controller.told.groups.CHANGES_KEPT", 8)
    world, told, links = contend(2, 4, 2)
    for links_now in [links, frozenset(list(links)[:1])] * 20:
        told.update(Groups(links_now, world.network))
    assert told.version == 40
    for base in range(told.version - 8):
        assert told.since(base) is told.since(0)
    for base in range(told.version + 9):
        told.since(base)
    assert len(told._since) <= 9
