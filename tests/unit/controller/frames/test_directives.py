"""What the library sends: directives by host, answers to PING, and nothing without a lease."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from bench.fuzz.leaders import FIRST_SEQUENCE, credentials, frame, mac
from bench.fuzz.receivers import EPOCH, LEADER_MAC
from controller.frames.frames import MAIN, Frames, Rows
from controller.policies.compiled.batches import SLOT
from protocol.auth import ReplayWindow
from protocol.keys.hosts import Speaker
from protocol.messages import COORDINATOR, MAX_GRANTS, Directive, Frame, Ping, Pong, decode

NODE, STRANGER = 16, 17
TAG = bytes.fromhex("8100e000")
NONE = np.zeros(0, SLOT)


class Sender:
    """The library with one member that it knows and one that it does not, at one end of a socket pair."""

    def __init__(self, tag: bytes = b"") -> None:
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.far.setblocking(False)
        self.frames = Frames(LEADER_MAC, EPOCH, 7, tag)
        self.frames.terms.until_ns = 1 << 62
        for node in (NODE, STRANGER):
            self.frames.joined(node)
        keys = credentials(1)
        self.frames.know(NODE, mac(1), Speaker(keys, name="h1"), keys.from_leader, ReplayWindow(FIRST_SEQUENCE))

    def direct(self, revoked: Rows, granted: Rows) -> list[int]:
        return self.frames.direct(self.near.fileno(), revoked, granted, watched=0, now_ns=0)

    def sent(self) -> list[bytes]:
        found = []
        while True:
            try:
                found.append(self.far.recv(2048))
            except BlockingIOError:
                return found

    def read(self) -> list[Frame]:
        return [decode(raw, credentials(1).from_leader) for raw in self.sent()]


@pytest.fixture
def sender() -> Iterator[Sender]:
    made = Sender()
    yield made
    made.near.close()
    made.far.close()


def slots(count: int, node: int = NODE, first: int = 100) -> Rows:
    return np.array([(first + at, node, 20, 1000 * at, 1000 * at + 500, 1514, 0, 0) for at in range(count)], SLOT)


def test_one_directive_carries_all_grants_of_a_host_that_fit(sender: Sender) -> None:
    sender.frames.terms.grace_ns = 9
    revoked = slots(1, first=5)
    assert not sender.direct(revoked, slots(MAX_GRANTS + 1))
    frames = sender.read()
    assert [(one.sender, one.epoch, one.sequence, one.source) for one in frames] == [
        (COORDINATOR, EPOCH, 8, LEADER_MAC), (COORDINATOR, EPOCH, 9, LEADER_MAC)
    ]  # fmt: skip
    messages = [one.message for one in frames]
    assert all(isinstance(message, Directive) for message in messages)
    grants = [grant for message in messages for grant in message.grants]  # type: ignore[union-attr]
    assert len(messages[0].grants) == MAX_GRANTS and len(grants) == MAX_GRANTS + 2  # type: ignore[union-attr]
    assert (grants[0].slot, grants[0].bytes) == (5, 0) and [grant.slot for grant in grants[1:]] == list(range(100, 136))
    assert {grant.end_ns - grant.start_ns for grant in grants[1:]} == {509}


def test_what_goes_to_members_that_it_does_not_know_is_left_to_the_caller(sender: Sender) -> None:
    granted = np.concatenate([slots(1), slots(2, STRANGER, 200), slots(1, 99, 300)])
    assert sender.direct(slots(1, STRANGER, 50), granted) == [0, 2, 3]
    assert len(sender.read()) == 1
    assert sender.frames.book.slots == 3  # of a node that is nobody's there is nothing to know


@pytest.mark.parametrize("count", [1, 3, 700])
def test_every_slot_of_many_leaves_once(count: int) -> None:
    made = Sender()
    for node in range(1000, 1000 + count):
        made.frames.joined(node)
        keys = credentials(1)
        made.frames.know(node, mac(1), Speaker(keys, name="h1"), keys.from_leader, ReplayWindow(FIRST_SEQUENCE))
    found: list[Frame] = []
    granted = np.concatenate([slots(2, node, 10 * node) for node in range(1000, 1000 + count)])
    for first in range(0, len(granted), 200):  # as many frames as a socket pair holds
        made.direct(NONE, granted[first : first + 200])
        found += made.read()
    numbers = [grant.slot for one in found for grant in one.message.grants]  # type: ignore[union-attr]
    assert sorted(numbers) == sorted(granted["slot"].tolist())
    assert [one.sequence for one in found] == list(range(8, 8 + count))


def test_the_priority_tag_stands_before_the_type() -> None:
    made = Sender(TAG)
    made.direct(NONE, slots(1))
    (raw,) = made.sent()
    assert raw[12:16] == TAG
    assert decode(raw[:12] + raw[16:], credentials(1).from_leader).message == decode(_untagged(), _key()).message


def _untagged() -> bytes:
    made = Sender()
    made.direct(NONE, slots(1))
    return made.sent()[0]


def _key() -> object:
    return credentials(1).from_leader


def test_nothing_leaves_without_a_lease_and_that_is_counted(sender: Sender) -> None:
    sender.frames.terms.until_ns = time.monotonic_ns()
    sender.direct(NONE, slots(36))
    assert sender.frames.withheld == 2
    sender.far.send(frame(Ping(5), 1, sequence=FIRST_SEQUENCE + 1, sender=NODE))
    batch = sender.frames.take(sender.near.fileno(), MAIN, 0)
    assert batch is not None and batch.accepted == 1 and sender.frames.withheld == 1
    assert not sender.sent()


def test_a_ping_is_answered_with_the_times_of_its_arrival_and_of_the_answer(sender: Sender) -> None:
    before_ns = time.monotonic_ns()
    sender.far.send(frame(Ping(5), 1, sequence=FIRST_SEQUENCE + 1, sender=NODE))
    sender.frames.take(sender.near.fileno(), MAIN, 0)
    ((_, _, _, _, _, pong, _),) = sender.read()
    assert isinstance(pong, Pong) and pong.sent_ns == 5
    assert before_ns <= pong.received_ns <= pong.replied_ns <= time.monotonic_ns()


def test_a_socket_that_takes_no_more_costs_frames_and_not_the_loop(sender: Sender) -> None:
    sender.near.setblocking(False)
    for number in range(100):
        sender.direct(NONE, slots(700, first=1000 * number))
    assert sender.frames.sent < 20
    sender.sent()
    sender.direct(NONE, slots(1))
    assert len(sender.sent()) == 1
