"""What a core is told of the regulated pairs is what a look at all pairs that were met says, whatever has happened since."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from controller.policies.compiled.met import Met
from controller.policies.groups import Groups, Pairs
from tests.unit.controller.scheduling.test_groups import GBIT, HOSTS, World, mac
from topology.fabric import DirectedLink, Fabric, FabricBuilder

EVENTS = 300
CHANGES = ["backlog"] * 6 + ["contend"] * 3 + ["join"] * 4 + ["leave", "move", "move"] * 2 + ["rebuild", "everyone"]


def tree(dice: Random) -> Fabric:
    builder = FabricBuilder()
    for at in range(4):
        builder.add_switch(f"s{at}")
        if at:
            builder.add_link(f"s{at}", f"s{dice.randrange(at)}", GBIT)
    for at in range(HOSTS):
        builder.add_host(f"h{at}")
        builder.add_link(f"h{at}", f"s{dice.randrange(4)}", GBIT)
    return builder.build()


@pytest.mark.parametrize("seed", range(40))
def test_what_is_told_is_what_a_look_at_all_pairs_says(seed: int) -> None:
    dice = Random(seed)
    fabrics = [tree(dice), tree(dice)]
    world, met, everyone, seen = World(fabrics[0]), Met(), False, set()
    links: frozenset[DirectedLink] = frozenset()
    if seed % 2:
        world.prefer()
    for _ in range(EVENTS):
        what, host = dice.choice(CHANGES), dice.randrange(HOSTS)
        member = world.members.at(mac(host))
        if what == "backlog" and member is not None:
            ids = {*world.numbering.ids.values(), *(other.node for other in world.members.present())}  # some will be members
            to = sorted(dice.sample(sorted(ids - {member.node}), 3))
            met.backlogs([member.node], [0, len(to)], to)
            seen |= {(member.node, one) for one in to}
        elif what == "contend":
            choice = sorted(link for both in world.fabric.links for link in both.directions)
            links = frozenset(dice.sample(choice, 4))
        elif what == "join":
            world.join(host)
        elif what == "leave" and member is not None:
            world.leave(host)
            met.left(member.node)
            seen = {pair for pair in seen if member.node not in pair}
        elif what == "move" and member is not None:
            world.network.add(world.members.register(member.mac, f"h{dice.randrange(HOSTS)}", GBIT, (), "tbf", "1", 0))
        elif what == "rebuild":
            world.fabric = fabrics[world.fabric is fabrics[0]]
            world.rebuild(world.fabric)
        elif what == "everyone":
            everyone = not everyone
        groups = Groups(links, world.network, everyone=everyone)
        told = {(node, to) for node, its in met.regulated(groups).items() for to in its}
        assert told == {pair for pair in seen if groups.has(*pair)}


class All(Pairs):
    """All pairs are regulated."""

    def has(self, node: int, destination: int) -> bool:
        return True

    def behind(self, node: int) -> Iterator[int]:
        return iter(())

    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize("at_once", [20, 512])
def test_pairs_that_are_idle_are_forgotten_where_there_are_many(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """A fabric's hosts send to ever other ones; what a core is told does not grow for ever."""
    monkeypatch.setattr("controller.policies.compiled.met.MANY", 100)
    monkeypatch.setattr("controller.policies.compiled.met.LOOKED_AT", at_once)
    met = Met()
    met.regulated(All())
    met.backlogs([1], [0, 2], [2, 3])
    for node in range(10, 1000):
        told = met.backlogs([1, node], [0, 1, 5], [2, *range(4, 8)])
        met.sent(1, [3, 9])
        assert told is not None and {2, 3} == told[1] and told[node] == {4, 5, 6, 7}
        assert sum(map(len, told.values())) <= 1_000, "of 4,000"
    assert len(met._from[4]) <= 250 and told == met.regulated(All())
    met.left(1)
    assert 1 not in met.regulated(All())


def test_a_pair_that_waits_while_idle_ones_are_looked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.policies.compiled.met.MANY", 4)
    monkeypatch.setattr("controller.policies.compiled.met.LOOKED_AT", 1)
    met = Met()
    met.regulated(All())
    for node in range(1, 20):  # the first look ends, in which all are new, and the next one begins
        met.backlogs([node], [0, 1], [100])
        begun = len(met._to_look)
        if begun > 8:
            break
    assert met._before[1] == set(), "idle since the look before"
    met.backlogs([1], [0, 1], [100])
    while met._to_look:
        told = met.backlogs([50], [0, 1], [100])
    assert 100 in met.regulated(All())[1] and met.regulated(All()).keys() < {*range(1, 20), 50}
    del told
