"""A change of the directory reaches every host as a change; whole directories are asked for seldom, and not by all at once."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from agents.queues.directory import DirectoryCopy
from controller.members.registry import Members
from protocol.messages import HEARTBEAT_MAC, Directory, DirectoryChange, DirectoryRequest, Heartbeat, Override, decode
from tests.unit.agents.membership.test_agent_heartbeats import MS, RING, World, mac
from tests.unit.controller.members.test_bounds import Fabric, address

STEPS = st.lists(st.tuples(st.integers(1, 5), st.none() | st.sets(st.integers(1, 9), max_size=4), st.booleans()), max_size=40)


@given(STEPS, st.sets(st.integers(0, 40)))
def test_changes_make_what_the_whole_directory_is_whatever_is_lost(
    steps: list[tuple[int, set[int] | None, bool]], lost: set[int]
) -> None:
    members, copy, base = Members(), DirectoryCopy(), 1
    copy.take(Directory(1, 0, 1, ()))
    for number, (host, wanted, told) in enumerate(steps):
        node = members.register(address(host), f"h{host}", 1, tuple(map(IPv4Address, wanted or ())), "tbf", "1", 0).node
        if wanted is None:
            members.leave(node)
        if told and (changed := members.changed_since(base)):
            if number not in lost:
                took = copy.change(DirectoryChange(base, members.version, tuple(map(members.change, changed))))
                assert took
            base = copy.version
            assert number in lost or copy.entries == dict(members.directory())


def test_an_older_whole_directory_whose_last_page_comes_late_is_not_taken() -> None:
    copy = DirectoryCopy()
    copy.take(Directory(4, 0, 2, ((17, ()),)))
    assert copy.take(Directory(5, 0, 1, ((18, ()),)))
    assert not copy.take(Directory(4, 1, 2, ((19, ()),)))
    assert copy.version == 5 and set(copy.entries) == {18}


def test_a_change_that_begins_after_our_version_is_not_taken() -> None:
    copy = DirectoryCopy()
    assert not copy.change(DirectoryChange(0, 5, ((17, True, ()),)))
    copy.take(Directory(4, 0, 1, ((18, ()),)))
    assert not copy.change(DirectoryChange(5, 6, ((17, True, ()),)))
    assert copy.change(DirectoryChange(2, 6, ((17, True, (IPv4Address(1),)), (18, False, ()))))
    assert copy.entries == {17: (IPv4Address(1),)} and copy.version == 6
    assert not copy.change(DirectoryChange(2, 6, ()))


def test_the_leader_tells_a_change_three_times_in_one_small_frame_each() -> None:
    fabric = Fabric()
    for host in range(100):
        fabric.join(host)
    sweep = fabric.leader.directory._tell_changes
    for _ in range(4):
        sweep(0)
    fabric.link.sent = []
    fabric.leader.members.register(address(7), "h7", 10**8, (IPv4Address(9),), "TBF", "1", 0)
    for _ in range(6):
        sweep(0)
    assert len(fabric.link.sent) == 3 and all(len(frame) < 100 and frame[:6] == HEARTBEAT_MAC for frame in fabric.link.sent)


class Counting(World):
    """An agent whose questions for the directory are counted."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.agent.membership._chance = lambda: chance
        self.agent._receive(self.frame(Directory(1, 0, 1, ()), mac(1)), MS)
        self.link.sent = []

    def run(self, version: int, begin_ms: int, end_ms: int) -> list[int]:
        asked = list[int]()
        for now_ms in range(begin_ms, end_ms, 12):
            self.agent._receive(self.frame(Heartbeat(Override.COORDINATE, version, 1), HEARTBEAT_MAC), now_ms * MS)
            sent, self.link.sent = self.link.sent, []
            asked += [now_ms for raw in sent if isinstance(decode(raw, RING.sending).message, DirectoryRequest)]
        return asked


def test_who_was_told_a_change_asks_nothing() -> None:
    world = Counting(0)
    assert world.run(2, 0, 90) == []
    world.agent._receive(world.frame(DirectoryChange(1, 2, ((17, True, ()),)), HEARTBEAT_MAC), 90 * MS)
    assert 17 in cast(Any, world.agent.membership.nodes) and world.run(2, 96, 5_000) == []


def test_who_was_not_told_asks_less_and_less_often_and_not_with_the_others() -> None:
    one, other = Counting(0.1).run(2, 0, 20_000), Counting(0.9).run(2, 0, 20_000)
    assert len(one) < 12 and len(other) < 18 and one[0] >= 100 and one[0] != other[0]
    assert one[-1] - one[-2] >= 3_000


def told(fabric: Fabric, kind: type) -> list[tuple[bytes, Any]]:
    """Destination and message of what the leader has sent of this kind since the last look."""
    frames = [decode(raw, RING.sending) for raw in fabric.link.sent]
    fabric.link.sent = []
    return [(frame.destination, frame.message) for frame in frames if isinstance(frame.message, kind)]


def test_who_missed_changes_gets_the_difference_and_who_has_nothing_the_whole() -> None:
    fabric = Fabric()
    for host in range(30):
        fabric.join(host)
    leader, member = fabric.leader, fabric.leader.members.present()[3]
    before = leader.members.version
    leader.members.register(address(7), "h7", 10**8, (IPv4Address(9),), "TBF", "1", 0)
    fabric.link.sent = []
    leader.directory._on_request(member, DirectoryRequest(before), 0)
    (one,) = told(fabric, DirectoryChange)
    assert one[0] == member.mac and len(one[1].entries) == 1 and not told(fabric, Directory)
    leader.directory._on_request(member, DirectoryRequest(0), 0)
    assert len(told(fabric, Directory)) == 1


def test_a_long_change_is_a_chain_of_frames_and_a_host_may_stop_after_each() -> None:
    fabric = Fabric()
    for host in range(10):
        fabric.join(host)
    leader, base = fabric.leader, fabric.leader.members.version
    copy = DirectoryCopy()
    copy.take(Directory(base, 0, 1, leader.members.directory()))
    for host in range(300):
        leader.members.register(address(host), f"h{host}", 10**8, (IPv4Address(1000 + host),), "TBF", "1", 0)
    chain = leader.directory._changes(base)
    assert chain is not None and len(chain) > 1
    assert copy.change(chain[0]) and copy.version == chain[0].version
    for change in leader.directory._changes(copy.version) or ():
        assert copy.change(change)
    assert copy.entries == dict(leader.members.directory())


def test_where_dozens_ask_for_the_whole_at_once_a_few_answers_go_out() -> None:
    fabric = Fabric()
    for host in range(40):
        fabric.join(host)
    leader = fabric.leader
    leader.directory._look(-1_000 * MS)
    fabric.link.sent = []
    for member in leader.members.present():
        leader.directory._on_request(member, DirectoryRequest(0), 0)
    for now_ns in range(0, 500 * MS, 24 * MS):
        leader.directory._look(now_ns)
    answers = told(fabric, Directory)
    pages = answers[0][1].pages
    assert [to for to, _ in answers].count(HEARTBEAT_MAC) == pages and len(answers) == 3 * pages
