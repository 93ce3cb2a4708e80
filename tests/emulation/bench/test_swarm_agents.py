"""The swarm's agents, with protocol/ as their leader at the other end of a socket pair."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

import numpy as np
import pytest

from bench.computing.scale_network import Pairs
from bench.swarm.agents import Conditions, Swarm
from bench.swarm.traffic import world
from controller.members.enrolments import Enrolments
from controller.members.host_keys import HostKeys
from protocol.auth import Guard
from protocol.bodies.groups import GroupRow, GroupsChange, GroupsRequest, Way
from protocol.bodies.versions import Versions
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.hosts import Master, Speaker
from protocol.messages import (
    COORDINATOR,
    HEARTBEAT_MAC,
    Ack,
    Backlog,
    Directive,
    Directory,
    DirectoryChange,
    DirectoryRequest,
    Error,
    ErrorCode,
    Frame,
    Grant,
    Heartbeat,
    Message,
    Override,
    Ping,
    Pong,
    Register,
    Regulate,
    Welcome,
    Yield,
    encode,
)
from topology import shapes

MS, SECOND_NS = 1_000_000, 1_000_000_000
FAIL_OPEN_NS = 500 * MS
PATIENCE_S = 20.0
ALWAYS = Conditions()
MAC = bytes.fromhex("0a0000000001")
HOSTS = [(0x02 << 40 | number).to_bytes(6) for number in (1, 2)]
NODES = {HOSTS[0]: 16, HOSTS[1]: 17}


class Leader:
    """Says what a test tells it, and keeps what it hears."""

    def __init__(self, master: Master, connection: socket.socket, epoch: int) -> None:
        self.connection, self.epoch, self.sequence, self.groups = connection, epoch, 1, 1
        ring = KeyRing(master)
        self._keys = HostKeys(ring, Enrolments())
        self._speakers: dict[bytes, Speaker] = {}
        self._way = LeaderAuthentication(ring, self._keys.find, lambda mac: self._speakers[mac].credentials.from_leader)
        self.guard = Guard(ring, epoch=epoch, leader=True, address=MAC, ways={3: self._way})

    def say(self, message: Message, to: bytes) -> None:
        place = self._way.place() if isinstance(message, Heartbeat) else None
        self.sequence += 1
        frame = encode(
            message, key=self._way, destination=to, source=MAC, sender=COORDINATOR, epoch=self.epoch,
            sequence=self.sequence if place is None else place, version=3,
        )  # fmt: skip
        self.connection.send(frame)

    def heartbeat(self, version: int = 1) -> None:
        self.say(Heartbeat(Override.COORDINATE, version, self.groups), HEARTBEAT_MAC)

    def hear(self) -> list[Frame]:
        found = []
        while True:
            try:
                raw = self.connection.recv(2048, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            frame = self.guard.accept(raw)
            if frame is None and raw[26:30] != self.epoch.to_bytes(4):
                continue  # it was made before the host heard of this epoch
            assert frame is not None, (self.guard.refused, raw)
            assert self.guard.speaker is not None
            self._speakers[frame.source] = self.guard.speaker
            found.append(frame)

    def welcome(self, asked: Register, mac: bytes) -> None:
        place, value = self._way.position
        self.say(
            Welcome(
                asked.nonce, NODES[mac], 12 * MS, FAIL_OPEN_NS, MS // 2, 100_000, 1_000_000, 50 * MS, 3, Versions(3, 3), place,
                value,
            ),
            mac,
        )  # fmt: skip


class Scene:
    """Two hosts, of which the first always sends to the second, and their leader."""

    def __init__(self, given: Conditions = ALWAYS) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        master = Master(Key(bytes(range(32))))
        fabric = shapes.star(2, shapes.GIGABIT)
        self.swarm = Swarm(world(fabric, 2, Pairs(np.array([0]), np.array([1]))), master, theirs, given)
        self.leader = Leader(master, ours, 1000)
        self._sockets = ours, theirs
        self.told: list[Frame] = []
        self.heard: list[Frame] = []

    def run(self, ms: float, *, alive: bool = True) -> list[Frame]:
        """What hosts say meanwhile; with `alive` the leader's heart beats."""
        until_ns = time.monotonic_ns() + round(ms * MS)
        return self.until(lambda _: time.monotonic_ns() >= until_ns, alive=alive)

    def until(self, enough: Callable[[list[Frame]], object], *, alive: bool = True, answered: bool = False) -> list[Frame]:
        """What hosts say until it is enough, or until the test's patience ends; with `answered` the leader answers them."""
        heard: list[Frame] = []
        began_s = time.monotonic()
        while time.monotonic() - began_s < PATIENCE_S:
            if alive:
                self.leader.heartbeat()
            self.swarm.run(time.monotonic_ns() + 2 * MS)
            fresh = self.leader.hear()
            for frame in of(Ping, fresh) if answered else ():
                now_ns = time.monotonic_ns()
                self.leader.say(Pong(0, now_ns, now_ns), frame.source)
            heard += fresh
            self.heard += fresh
            if enough(heard):
                return heard
        raise AssertionError(f"not enough in {PATIENCE_S} s: {Counter(type(frame.message).__name__ for frame in heard)}")

    def welcome(self) -> None:
        """Both hosts become members."""
        while self.swarm.counts().members < 2:  # a host that was kept waiting for too long asks again
            for frame in of(Register, self.until(lambda heard: heard or self.swarm.counts().members == 2)):
                self.leader.welcome(frame.message, frame.source)

    def join(self) -> None:
        """Both hosts become members that know the directory; the pair is regulated, and the first has told its backlog."""
        self.welcome()
        names = tuple((NODES[mac], (IPv4Address("10.0.0.1") + number,)) for number, mac in enumerate(HOSTS))
        for mac in HOSTS:
            self.leader.say(Directory(1, 0, 1, names), mac)
        self.leader.say(Regulate(1, 0, 1, (17,)), HOSTS[0])
        self.told = self.until(lambda heard: of(Backlog, heard))

    def close(self) -> None:
        self.swarm.close()
        for one in self._sockets:
            one.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


def of(kind: type, frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if isinstance(frame.message, kind)]


def test_hosts_wait_for_a_leader_then_register_and_ask_for_the_directory(scene: Scene) -> None:
    assert scene.run(20, alive=False) == []
    asked = of(Register, scene.until(lambda heard: {frame.source for frame in of(Register, heard)} == set(HOSTS)))
    assert {frame.message.name for frame in asked} == {"h1", "h2"}
    for frame in asked:
        scene.leader.welcome(frame.message, frame.source)
    scene.until(lambda heard: {frame.source for frame in of(DirectoryRequest, heard)} == set(HOSTS) and of(Ping, heard))
    assert scene.swarm.counts().members == 2


def test_hosts_take_the_whole_directory_that_goes_to_all_once_all_pages_have_come(scene: Scene) -> None:
    scene.welcome()
    names = tuple((NODES[mac], (IPv4Address("10.0.0.1") + number,)) for number, mac in enumerate(HOSTS))
    for page, entry in enumerate(names):  # also after the first page: it is not the whole
        scene.until(lambda heard: {frame.source for frame in of(DirectoryRequest, heard)} == set(HOSTS))
        scene.leader.say(Directory(1, page, 2, (entry,)), HEARTBEAT_MAC)
    scene.run(50)
    assert not of(DirectoryRequest, scene.run(700))
    scene.leader.say(Regulate(1, 0, 1, (17,)), HOSTS[0])
    told = of(Backlog, scene.until(lambda heard: of(Backlog, heard)))
    assert told[-1].message.entries[0][0] == 17, "it knows who has the address"


def test_a_host_takes_a_change_of_the_directory_that_is_told_to_it_alone(scene: Scene) -> None:
    scene.join()
    scene.until(lambda heard: not of(DirectoryRequest, heard[-1:]), answered=True)
    for mac in HOSTS:
        scene.leader.say(DirectoryChange(1, 2, ((17, True, (IPv4Address("10.0.0.2"),)),)), mac)
    until_ns = time.monotonic_ns() + 500 * MS
    while time.monotonic_ns() < until_ns:
        scene.leader.heartbeat(2)
        scene.swarm.run(time.monotonic_ns() + 10 * MS)
    assert scene.swarm.unknown() == {}
    assert not of(DirectoryRequest, scene.leader.hear()), "both have the version that the heartbeats name"


def test_a_regulated_sender_tells_its_backlog_and_sends_what_its_slots_permit(scene: Scene) -> None:
    scene.join()
    assert of(Backlog, scene.told)[-1].message.entries[0][0] == 17
    scene.run(50)  # what was sent before is on the links
    before = scene.swarm.model.sums()["sent"]
    start_ns = time.monotonic_ns() + 100 * MS
    grants = tuple(
        Grant(17, number, start_ns + number * SECOND_NS, start_ns + (number + 1) * SECOND_NS - MS, 100_000, 0)
        for number in (1, 2)
    )
    scene.leader.say(Directive(grants), HOSTS[0])
    scene.until(lambda heard: {frame.message.slot for frame in of(Ack, heard)} == {1, 2}, answered=True)
    counts = scene.swarm.counts()
    assert counts.directives == 1 and counts.grants == 2 and counts.late == 0
    scene.until(lambda _: scene.swarm.model.sums()["sent"] - before >= 199_999, answered=True)
    assert scene.swarm.model.sums()["sent"] - before <= 200_001, "more than was permitted"


def test_a_repeated_directive_changes_nothing_and_a_late_one_is_counted(scene: Scene) -> None:
    scene.join()
    now_ns = time.monotonic_ns()
    early = Directive((Grant(17, 5, now_ns + SECOND_NS, now_ns + 2 * SECOND_NS, 50_000, 0),))
    scene.leader.say(early, HOSTS[0])
    scene.leader.say(early, HOSTS[0])
    scene.leader.say(Directive((Grant(17, 6, now_ns - MS, now_ns + SECOND_NS, 50_000, 0),)), HOSTS[0])
    scene.until(lambda _: scene.swarm.counts().directives == 3)
    counts = scene.swarm.counts()
    assert counts.grants == 2 and counts.late == 1


def test_groups_regulate_whom_they_name_in_place_of_lists(scene: Scene) -> None:
    scene.join()
    assert {frame.source for frame in of(GroupsRequest, scene.heard)} == set(HOSTS), "each host asks after its WELCOME"
    part, link = GroupRow(0, 0, Way.PART, 16, 17), GroupRow(3, 0, Way.BEFORE, 16, 16)
    scene.leader.groups = 2
    scene.leader.say(GroupsChange(0, 2, 0, 1, (part,)), HEARTBEAT_MAC)
    before = scene.swarm.model.sums()["sent"]
    scene.until(lambda _: scene.swarm.model.sums()["sent"] > before + 1_000_000, answered=True)  # nothing is regulated now
    scene.leader.groups = 3
    scene.leader.say(GroupsChange(2, 3, 0, 1, (link,)), HEARTBEAT_MAC)
    scene.until(lambda heard: of(Backlog, heard) and not of(GroupsRequest, heard[-1:]), answered=True)
    scene.run(50)
    before = scene.swarm.model.sums()["sent"]
    scene.run(50)
    assert scene.swarm.model.sums()["sent"] == before


def test_a_sender_that_has_sent_its_demand_gives_the_rest_of_its_slot_back() -> None:
    scene = Scene(Conditions(load=0.01, mean_bytes=50_000))
    try:
        scene.join()
        now_ns = time.monotonic_ns()
        scene.leader.say(Directive((Grant(17, 9, now_ns, now_ns + 5 * SECOND_NS, 1 << 30, 0),)), HOSTS[0])
        given = of(Yield, scene.until(lambda heard: of(Yield, heard), answered=True))[0].message
        assert (given.destination, given.slot, given.backlog_bytes) == (17, 9, 0)
        assert 0 < given.unspent_bytes <= 1 << 30
        scene.until(lambda heard: of(Backlog, heard), answered=True)  # the next demand asks anew
    finally:
        scene.close()


def test_hosts_fail_open_in_silence_and_come_back(scene: Scene) -> None:
    scene.join()
    welcomes = scene.swarm.counts().welcomes
    scene.until(lambda _: scene.swarm.counts().members == 0, alive=False)
    assert scene.swarm.counts().silent == 2
    scene.until(lambda _: scene.swarm.counts().members == 2, answered=True)
    assert scene.swarm.counts().unanswered == 0
    assert scene.swarm.counts().welcomes == welcomes, "a leader that was silent is still the one that knows them"


def test_a_sender_that_holds_packets_back_asks_for_an_answer_and_registers_again_without_one(scene: Scene) -> None:
    scene.join()
    heard = scene.until(lambda heard: of(Register, heard))
    assert any(not frame.message.sent_ns for frame in of(Ping, heard) if frame.source == HOSTS[0])
    assert all(frame.source == HOSTS[0] for frame in of(Register, heard)), "who holds nothing back asks nothing"
    assert scene.swarm.counts().unanswered == 1


def test_a_host_that_its_leader_does_not_know_registers_again(scene: Scene) -> None:
    scene.join()
    scene.leader.say(Error(ErrorCode.UNKNOWN_SENDER, 1, "register first"), HOSTS[1])
    scene.until(lambda heard: any(frame.source == HOSTS[1] for frame in of(Register, heard)))


def test_hosts_register_with_a_later_leader(scene: Scene) -> None:
    scene.join()
    counts = scene.swarm.counts()
    assert (counts.epoch, counts.current) == (1000, 2)
    scene.leader.epoch = 2000
    scene.leader.guard.adopt(2000)
    scene.until(lambda heard: {frame.source for frame in of(Register, heard)} == set(HOSTS), answered=True)
    assert scene.swarm.counts().members == 0
    scene.leader.welcome(of(Register, scene.heard)[-1].message, of(Register, scene.heard)[-1].source)
    scene.until(lambda _: scene.swarm.counts().members == 1)
    counts = scene.swarm.counts()
    assert (counts.epoch, counts.current) == (2000, 1)


def test_kinds_that_the_swarm_does_not_know_are_counted(scene: Scene) -> None:
    scene.join()
    scene.leader.say(Ping(7), HOSTS[0])  # no leader sends it
    scene.until(lambda _: scene.swarm.unknown())
    assert scene.swarm.unknown() == {12: 1} and scene.swarm.counts().refused == 0
