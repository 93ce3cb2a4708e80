"""An agent whose GROUPS_REQUEST was lost is told its destinations one by one; it says again that it knows groups."""

from __future__ import annotations

from itertools import pairwise

from protocol.bodies.groups import GroupRow, Way
from protocol.messages import GroupsChange, GroupsRequest, Heartbeat, Message, Override, Regulate, Welcome, decode
from tests.unit.agents.membership.test_agent_heartbeats import MS, RING, World, mac


class Told(World):
    """A member that has asked for the groups already."""

    def __init__(self) -> None:
        super().__init__()
        self.link.sent.clear()

    def hear(self, message: Message, now_ns: int) -> list[Message]:
        """A frame of the leader comes; returns what the agent says to it about groups."""
        self.agent._receive(self.frame(message, mac(1)), now_ns)
        frames, self.link.sent = self.link.sent, []
        return [said for frame in frames if isinstance(said := decode(frame, RING.sending).message, GroupsRequest)]


def test_who_knows_the_groups_says_so_once_a_second_while_it_is_told_its_destinations() -> None:
    world = Told()
    world.hear(GroupsChange(0, 5, 0, 1, ()), MS)
    assert world.hear(Regulate(1, 0, 2, (17,)), 2000 * MS) == [GroupsRequest(5)]
    assert not world.hear(Regulate(1, 1, 2, (18,)), 2001 * MS) and not world.hear(Regulate(2, 0, 1, (17,)), 2900 * MS)
    assert world.hear(Regulate(3, 0, 1, (17,)), 3001 * MS) == [GroupsRequest(5)]
    assert 17 not in world.agent.keeper.regulated


def test_who_knows_no_groups_obeys() -> None:
    assert not Told().hear(Regulate(1, 0, 1, (17,)), 2000 * MS)


def test_an_older_list_whose_last_page_comes_late_is_not_obeyed() -> None:
    world = Told()
    world.hear(Regulate(1, 0, 2, (17,)), MS)
    world.hear(Regulate(2, 0, 1, ()), 2 * MS)
    world.hear(Regulate(1, 1, 2, (18,)), 3 * MS)
    assert not world.agent.keeper.regulated
    world.hear(Regulate(3, 0, 1, (18,)), 4 * MS)
    assert world.agent.keeper.regulated == {18}


def test_who_had_no_answer_about_the_groups_asks_again_as_long_as_the_leader_is_there() -> None:
    world = Told()
    asked_ms = [ms for ms in range(20, 60_000, 20) if world.hear(Heartbeat(Override.COORDINATE, 1, 7, 0), ms * MS)]
    pauses = [after - before for before, after in pairwise(asked_ms)]
    assert len(asked_ms) > 15 and asked_ms[-1] > 55_000 and max(pauses) <= 3_300


def test_who_becomes_another_node_holds_back_what_that_node_must_and_nothing_else() -> None:
    """Its interface has another MAC address, so the leader gave it another number; the groups are those of before."""
    world = Told()
    gated = (18, 19)
    world.agent.keeper._gated = lambda: gated
    part, behind = GroupRow(0, 1, Way.PART, 16, 19), (GroupRow(5, 1, Way.BEHIND, 18, 18), GroupRow(6, 1, Way.BEHIND, 17, 17))
    world.hear(GroupsChange(0, 5, 0, 1, (part, *behind, GroupRow(7, 1, Way.BEFORE, 17, 18))), MS)
    assert world.agent.keeper.regulated == {18}
    world.agent.membership.unknown(2 * MS)
    world.hear(Welcome(world.agent.membership._nonce, 17, 12 * MS, 50 * MS, 0, 0, 0, 50 * MS), 3 * MS)
    needed = {node for node in gated if node in world.agent.membership._groups}
    assert world.agent.keeper.regulated == needed == {18, 19}
