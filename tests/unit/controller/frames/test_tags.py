"""The tags of a batch, which are looked at several at once: wherever a forged one stands, that frame alone is not taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from bench.fuzz.leaders import FIRST_SEQUENCE, credentials, frame, mac
from bench.fuzz.receivers import EPOCH, LEADER_MAC
from controller.frames.frames import MAIN, Frames
from controller.members.registry import FIRST_NODE
from protocol.auth import ReplayWindow
from protocol.keys.hosts import Speaker
from protocol.messages import Ack, Backlog, Message
from tests.unit.controller.frames.sanitized import take_other_build

MEMBERS, FRAMES, TAG = 3, 21, 16

take_other_build()


class Receiver:
    """The library with some members, at one end of a socket pair."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.frames = Frames(LEADER_MAC, EPOCH, 7)
        for number in range(1, MEMBERS + 1):
            self.frames.joined(FIRST_NODE + number - 1)
            self.know(number)

    def know(self, number: int, enrolment: int = 0) -> None:
        keys = credentials(number, enrolment)
        window = ReplayWindow(FIRST_SEQUENCE)
        self.frames.know(FIRST_NODE + number - 1, mac(number), Speaker(keys, name=f"h{number}"), keys.from_leader, window)

    def take(self) -> tuple[int, list[bytes]]:
        """How many frames were taken, and those that were not."""
        accepted, left = 0, []
        while (batch := self.frames.take(self.near.fileno(), MAIN, 1)) is not None:
            accepted += batch.accepted
            left += [] if batch.raw is None else [batch.raw]
            if not batch.more:
                break
        return accepted, left


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.near.close()
    made.far.close()


def said(count: int) -> list[bytes]:
    """Frames of one to five blocks, of all members in turn."""
    entries = tuple((FIRST_NODE + 10 + at, 5, 0) for at in range(12))
    messages: list[Message] = [Ack(1, FIRST_NODE, 1, 1) if at % 2 else Backlog(1, 0, 1, entries[:at]) for at in range(count)]
    return [
        frame(message, 1 + at % MEMBERS, sequence=FIRST_SEQUENCE + 1 + at) for at, message in enumerate(messages[:count])
    ]


def forged(raw: bytes, at: int) -> bytes:
    """The frame with one bit of its tag turned."""
    data = bytearray(raw)
    data[len(raw) - TAG + at % TAG] ^= 1 << at % 8
    return bytes(data)


@pytest.mark.parametrize("place", range(FRAMES))
def test_a_forged_tag_is_found_wherever_it_stands(receiver: Receiver, place: int) -> None:
    frames = said(FRAMES)
    frames[place] = forged(frames[place], place)
    for raw in frames:
        receiver.far.send(raw)
    assert receiver.take() == (FRAMES - 1, [frames[place]])


@pytest.mark.parametrize("count", range(1, FRAMES))
def test_frames_of_any_number_and_length_are_taken(receiver: Receiver, count: int) -> None:
    for raw in said(count):
        receiver.far.send(raw)
    assert receiver.take() == (count, [])


def test_a_frame_that_waits_under_a_key_before_is_not_taken(receiver: Receiver) -> None:
    first, *others = said(8)
    for raw in (forged(first, 0), *others):
        receiver.far.send(raw)
    batch = receiver.frames.take(receiver.near.fileno(), MAIN, 1)
    assert batch is not None and batch.more, "the forged one ends it, and the tags of the others are known by now"
    peer = receiver.frames.knows(FIRST_NODE + 1)
    assert peer is not None
    enrolled = bytes(peer.enrolment)
    receiver.know(2, enrolment=1)
    peer.enrolment[:] = list(enrolled)  # else the frames are refused by their enrolment, whatever their tags are
    accepted, left = receiver.take()
    its = [raw for at, raw in enumerate(others, 1) if at % MEMBERS == 1]
    assert (accepted, left) == (len(others) - len(its), its)
