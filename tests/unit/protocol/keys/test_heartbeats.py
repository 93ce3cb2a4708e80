"""Heartbeats: signed when they say something new, else shown to be new by the next value of a hash chain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.auth import Guard
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.heartbeats import LENGTH, SEQUENCE_FROM, SEQUENCE_UNTIL, VALUE_BYTES
from protocol.keys.hosts import Master
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Cause, Heartbeat, Override, Welcome, encode
from protocol.wire import BODY
from tests.unit.protocol.protocol_strategies import PROPERTY

MASTER, OTHER = Master(Key(b"m" * 32)), Master(Key(b"n" * 32))
LEADER, HOST = b"\x02\0\0\0\0\xfe", b"\x02\0\0\0\0\x01"
SECRET = MASTER.enroll("h1")
COORDINATE, FREE = Heartbeat(Override.COORDINATE, 1, 1), Heartbeat(Override.FREE, 1, 1)


class Leader:
    def __init__(self, epoch: int = 5, source: bytes = LEADER, master: Master = MASTER) -> None:
        self.ring = KeyRing(master)
        self.way = LeaderAuthentication(self.ring, lambda *_: Cause.TAG, lambda mac: SECRET.at(mac).from_leader)
        self.epoch, self.source, self.sequence = epoch, source, 10**18

    def beat(self, message: Heartbeat = COORDINATE) -> bytes:
        return self._frame(message, HEARTBEAT_MAC, self.way.place())

    def say(self, message: Welcome) -> bytes:
        self.sequence += 1
        return self._frame(message, HOST, self.sequence)

    def _frame(self, message: Heartbeat | Welcome, to: bytes, sequence: int) -> bytes:
        return encode(
            message, key=self.way, destination=to, source=self.source, sender=COORDINATOR, epoch=self.epoch, sequence=sequence
        )


def agent() -> Guard:
    return Guard(SECRET.at(HOST), address=HOST)


def taken(guard: Guard, frame: bytes) -> bool:
    return guard.accept(frame) is not None


def at_place(frame: bytes, place: int) -> bytes:
    return frame[:SEQUENCE_FROM] + place.to_bytes(8) + frame[SEQUENCE_UNTIL:]


def place_of(frame: bytes) -> int:
    return int.from_bytes(frame[SEQUENCE_FROM:SEQUENCE_UNTIL])


@given(st.lists(st.tuples(st.integers(1, LENGTH + 3), st.booleans()), min_size=1, max_size=30))
@PROPERTY
def test_whichever_are_lost_each_newer_one_is_taken_once(gaps: list[tuple[int, bool]]) -> None:
    leader, guard = Leader(), agent()
    for gap, free in gaps:
        for _ in range(gap):
            frame = leader.beat(FREE if free else COORDINATE)
        content = guard.accept(frame)
        assert content is not None and content.message == (FREE if free else COORDINATE)
        assert content.sequence == place_of(frame)
        assert not taken(guard, frame)
    assert guard.refused == {Cause.REPLAY: len(gaps)}


def test_an_older_one_is_refused_and_in_order_or_not_the_newest_counts() -> None:
    leader, guard = Leader(), agent()
    first, second, third = leader.beat(), leader.beat(), leader.beat()
    assert [taken(guard, frame) for frame in (second, first, second, third)] == [True, False, False, True]
    assert set(guard.refused) == {Cause.REPLAY}


def test_a_signature_is_verified_only_when_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, guard = Leader(), agent()
    verified: list[bytes] = []
    prove = type(MASTER.group).proves
    monkeypatch.setattr(type(MASTER.group), "proves", lambda self, data, tag: verified.append(tag) or prove(self, data, tag))
    for _ in range(LENGTH):
        assert taken(guard, leader.beat())
    assert len(verified) == 1
    assert taken(guard, leader.beat()) and len(verified) == 2, "another chain"
    assert taken(guard, leader.beat(FREE)) and len(verified) == 3, "another content"
    assert taken(guard, leader.beat(FREE)) and len(verified) == 3


FORGERIES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "other content with the heard value": lambda heard, _: heard[:BODY] + b"\x01" + heard[BODY + 1 :],
    "the heard value at the next place": lambda heard, _: at_place(heard, place_of(heard) + 1),
    "the heard value far ahead": lambda heard, _: at_place(heard, place_of(heard) + LENGTH - 3),
    "the heard value at the last place": lambda heard, _: at_place(heard, (1 << 64) - 1),
    "a made-up value": lambda heard, _: at_place(heard, place_of(heard) + 1)[:-VALUE_BYTES] + bytes(VALUE_BYTES),
    "what was said before with the heard value": lambda heard, old: old[:-VALUE_BYTES] + heard[-VALUE_BYTES:],
    "what was said before at a later place": lambda heard, old: at_place(
        old[:-VALUE_BYTES] + heard[-VALUE_BYTES:], place_of(heard) + 1
    ),
    "from another source": lambda heard, _: heard[:6] + HOST + heard[12:],
    "of a later epoch": lambda heard, _: heard[:26] + (6).to_bytes(4) + heard[30:],
    "as another message": lambda heard, _: heard[:17] + b"\x11" + heard[18:],
    "longer": lambda heard, _: heard + bytes(1),
    "shorter": lambda heard, _: heard[:-1],
}


@pytest.mark.parametrize("way", FORGERIES)
def test_what_a_host_makes_of_what_it_hears_is_refused(way: str) -> None:
    leader, guard = Leader(), agent()
    old = leader.beat(FREE)
    assert taken(guard, old)
    heard = leader.beat()
    assert taken(guard, heard)
    later = leader.beat()  # the victim has not heard it, the forger has
    for basis in (heard, later):
        assert not taken(guard, FORGERIES[way](basis, old)), basis is later
    assert guard.epoch == 5 and taken(guard, later) and taken(guard, leader.beat())


@given(st.data())
@PROPERTY
def test_no_bit_of_it_can_be_flipped(data: st.DataObject) -> None:
    leader, guard = Leader(), agent()
    assert taken(guard, leader.beat())
    frame = leader.beat(data.draw(st.sampled_from((COORDINATE, FREE))))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    flipped = bytearray(frame)
    flipped[bit // 8] ^= 1 << bit % 8
    assert not taken(guard, bytes(flipped))
    assert taken(guard, frame)


def test_one_that_a_host_signs_is_refused_by_agents_and_by_other_leaders() -> None:
    forged = Leader(epoch=1029, master=Master(Key(SECRET.secret))).beat()
    for guard in (agent(), Guard(MASTER), Guard(MASTER, epoch=5, leader=True)):
        assert not taken(guard, forged) and guard.highest_epoch <= 5 and guard.refused == {Cause.TAG: 1}


def test_after_the_welcome_no_value_from_before_it_counts() -> None:
    """A host that starts again could else be kept shut with recorded heartbeats."""
    leader = Leader()
    recorded = [leader.beat() for _ in range(600)]
    guard = agent()
    assert taken(guard, recorded[0]), "it has heard nothing else, and holds nothing back"
    place, value = leader.way.position
    welcome = guard.accept(leader.say(Welcome(1, 16, 1, 1, 1, 1, 1, 1, place=place, value=value)))
    assert welcome is not None and isinstance(welcome.message, Welcome)
    chain = guard.authentications[3].heartbeats
    assert chain is not None
    chain.welcomed(welcome.message.place, welcome.message.value)
    assert not any(taken(guard, frame) for frame in recorded)
    assert taken(guard, leader.beat())


def test_a_leader_of_a_later_epoch_has_its_own_chain_and_the_old_one_is_silent() -> None:
    leader, guard = Leader(), agent()
    for _ in range(40):
        assert taken(guard, leader.beat())
    later = Leader(epoch=6, source=b"\x02\0\0\0\0\xfd")
    assert taken(guard, later.beat()) and guard.epoch == 6
    assert not taken(guard, leader.beat())
    assert taken(guard, later.beat())


def test_while_the_master_key_changes_heartbeats_of_either_are_taken_and_followed() -> None:
    leader = Leader()
    ring = KeyRing(SECRET.at(HOST), OTHER.enroll("h1", SECRET.enrolment).at(HOST))
    guard = Guard(ring, address=HOST)
    assert taken(guard, leader.beat())
    assert ring.sending.fingerprint == MASTER.fingerprint
    leader.ring.other = OTHER
    leader.ring.swap()
    assert taken(guard, leader.beat()) and ring.sending.fingerprint == OTHER.fingerprint
    assert taken(guard, leader.beat())


def test_what_a_forgery_costs_at_most_is_a_chain_of_hashes() -> None:
    leader, guard = Leader(), agent()
    assert taken(guard, leader.beat())
    hashed: list[int] = []
    chain = guard.authentications[3].heartbeats
    assert chain is not None
    follow = type(chain)._follow

    def counted(self: object, place: int, value: bytes, base: int, anchor: bytes) -> Cause | None:
        hashed.append(min(place, base + LENGTH) - 1)
        return follow(self, place, value, base, anchor)  # type: ignore[arg-type]

    type(chain)._follow = counted  # type: ignore[method-assign]
    try:
        for place in (2, LENGTH, LENGTH + 1, 1 << 40, (1 << 64) - 1):
            *frame, last = at_place(leader.beat(), place)
            assert not taken(guard, bytes([*frame, last ^ 1]))
    finally:
        type(chain)._follow = follow  # type: ignore[method-assign]
    assert max(hashed) <= LENGTH
