"""A registration that waited while its host said it again is answered once; a lost answer is sent again."""

from __future__ import annotations

from typing import Any

import pytest

from controller.coordinator.repeats import LONGEST_NS, Repeats
from controller.members.registry import Members
from protocol.bodies.versions import NEWEST
from protocol.key import Key
from protocol.keys.hosts import Master
from protocol.messages import UNREGISTERED, GateKind, Message, Ping, Register, Welcome, encode
from tests.unit.controller.members.test_bounds import MS, Fabric

MASTER = Master(Key(bytes(range(32))))
LEADER, HOST, OTHER = (bytes.fromhex(f"02000000000{number}") for number in "123")
CAME_NS = 10**18
REGISTER = Register("h1", 7, 10**9, (), GateKind.TBF, "1")


def raw(message: Message = REGISTER, sequence: int = 1, mac: bytes = HOST, salt: bytes = bytes(8), epoch: int = 5) -> bytes:
    key = MASTER.enroll("h1", salt).at(mac).to_leader
    return encode(message, key=key, destination=LEADER, source=mac, sender=0, epoch=epoch, sequence=sequence, version=NEWEST)


@pytest.fixture
def repeats() -> Repeats:
    members = Members()
    members.register(HOST, "h1", 10**9, (), "tbf", "1", 0)
    made = Repeats(members)
    made.answered(raw(), CAME_NS)
    return made


@pytest.mark.parametrize(
    ("frame", "stamp_ns", "dropped"),
    [
        ({"sequence": 2}, CAME_NS - MS, True),
        ({"sequence": 2}, CAME_NS + 1, False),
        ({"sequence": 2}, 0, False),
        ({"sequence": 2}, CAME_NS - LONGEST_NS - 1, False),
        ({"message": Register("h1", 8, 10**9, (), GateKind.TBF, "1")}, CAME_NS - MS, False),
        ({"message": Register("h1", 7, 10**8, (), GateKind.TBF, "1")}, CAME_NS - MS, False),
        ({"salt": b"anotherk"}, CAME_NS - MS, False),
        ({"mac": OTHER}, CAME_NS - MS, False),
        ({"epoch": 6}, CAME_NS - MS, False),
        ({"message": Ping(1)}, CAME_NS - MS, False),
    ],
    ids=["came before", "came after", "unknown", "clock set", "new nonce", "other rate", "other key", "other host", "epoch",
         "ping"],
)
def test_only_the_same_words_that_came_before_their_answer_are_dropped(
    repeats: Repeats, frame: dict[str, Any], stamp_ns: int, dropped: bool
) -> None:
    assert repeats.drops(raw(**frame), stamp_ns) is dropped


def test_who_left_and_whoever_is_no_member_is_heard(repeats: Repeats) -> None:
    repeats.answered(raw(mac=OTHER), CAME_NS)
    assert not repeats.drops(raw(mac=OTHER), CAME_NS - MS)
    repeats.left(16, 0)
    assert not repeats.drops(raw(), CAME_NS - MS)


@pytest.mark.parametrize("length", [0, 12, 20, 37])
def test_a_frame_that_is_too_short_is_left_to_the_guard(repeats: Repeats, length: int) -> None:
    assert not repeats.drops(raw()[:length], CAME_NS - MS)


def test_a_member_that_missed_its_welcome_gets_another_and_nothing_else_begins_anew() -> None:
    fabric, joined = Fabric(), list[int]()
    register = Register("h1", 1, 10**8, (), GateKind.TBF, "1")
    fabric.leader.parts.joined = joined.append  # type: ignore[method-assign]
    answers = [fabric.hear(1, register, UNREGISTERED) for _ in range(3)]
    assert all(isinstance(welcome, Welcome) for (welcome,) in answers) and len(joined) == 1
    fabric.hear(1, Register("h1", 2, 10**8, (), GateKind.TBF, "1"), UNREGISTERED)
    assert len(joined) == 2, "its agent began anew"
    fabric.leader.membership.forget(fabric.leader.members.present()[0], fabric.now_ns, "gone")
    fabric.hear(1, Register("h1", 2, 10**8, (), GateKind.TBF, "1"), UNREGISTERED)
    assert len(joined) == 3
