"""With keys for each host a frame counts for one receiver, from one sender, in one direction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.auth import Guard
from protocol.bodies.keys import KeyStep, RotationStep
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.authentication import LeaderAuthentication
from protocol.keys.hosts import Master, Speaker
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Cause, Leave, Message, Ping, Pong, encode
from protocol.wire import Prover
from tests.unit.protocol.protocol_strategies import PROPERTY, messages

MASTER = Master(Key(b"m" * 32))
LEADER, FIRST, SECOND = (bytes((2, 0, 0, 0, 0, number)) for number in (254, 1, 2))
ONE, TWO = MASTER.enroll("h1"), MASTER.enroll("h2")
EPOCH = 5
EVERYBODY = {ONE.enrolment: ONE, TWO.enrolment: TWO}


def find(data: bytes, enrolment: bytes) -> list[Speaker]:
    """Whose the frame may be."""
    return [Speaker(EVERYBODY[enrolment].at(data[6:12]))] if enrolment in EVERYBODY else []


def leading() -> tuple[Guard, LeaderAuthentication]:
    ring = KeyRing(MASTER)
    way = LeaderAuthentication(ring, find, lambda mac: {FIRST: ONE, SECOND: TWO}[mac].at(mac).from_leader)
    return Guard(ring, epoch=EPOCH, leader=True, address=LEADER, ways={3: way}), way


def frame(
    message: Message, key: Prover, to: bytes, source: bytes, sender: int, sequence: int = 1, epoch: int = EPOCH
) -> bytes:
    return encode(message, key=key, destination=to, source=source, sender=sender, epoch=epoch, sequence=sequence)


@given(messages)
@PROPERTY
def test_a_host_hears_what_the_leader_says_to_it_and_the_other_host_does_not(message: Message) -> None:
    _, way = leading()
    raw = frame(message, way, FIRST, LEADER, COORDINATOR)
    assert Guard(ONE.at(FIRST), epoch=EPOCH, address=FIRST).accept(raw) is not None
    for other in (Guard(TWO.at(SECOND), epoch=EPOCH), Guard(TWO.at(FIRST), epoch=EPOCH), Guard(ONE.at(SECOND), epoch=EPOCH)):
        assert other.accept(raw) is None and other.refused == {Cause.TAG: 1}


def test_frames_that_switches_flood_to_all_count_as_addressed_to_another_and_not_as_forged() -> None:
    """Before the switches know where the leader and a host are, all others get what these say to each other."""
    leader, way = leading()
    other = Guard(TWO.at(SECOND), epoch=EPOCH, address=SECOND)
    to_leader = frame(Ping(1), ONE.at(FIRST).to_leader, LEADER, FIRST, 16)
    to_host = frame(Pong(1, 2, 3), way, FIRST, LEADER, COORDINATOR)
    assert other.accept(to_leader) is None and other.accept(to_host) is None
    assert other.refused == {Cause.NOT_OURS: 2}
    assert leader.accept(to_host) is None and leader.refused == {Cause.NOT_OURS: 1}


@given(messages, st.sampled_from((FIRST, SECOND)), st.integers(0, 40), st.booleans())
@PROPERTY
def test_with_one_hosts_keys_nothing_reaches_the_other_host(message: Message, mac: bytes, sender: int, group: bool) -> None:
    victim = Guard(TWO.at(SECOND), epoch=EPOCH, address=SECOND)
    keys = ONE.at(mac)
    signer = Master(Key(ONE.secret)).signer
    for number, key in enumerate((keys.to_leader, keys.from_leader, signer)):
        for source in (LEADER, FIRST):
            for epoch in (EPOCH, EPOCH + 1024):
                raw = frame(message, key, HEARTBEAT_MAC if group else SECOND, source, sender, number + 1, epoch)
                assert victim.accept(raw) is None
    assert victim.epoch == EPOCH and not set(victim.refused) - {Cause.TAG, Cause.LENGTH}


@given(messages, st.integers(0, 40))
@PROPERTY
def test_to_the_leader_a_host_speaks_as_itself_whatever_it_writes(message: Message, sender: int) -> None:
    guard, _ = leading()
    for source in (FIRST, SECOND):
        for epoch in (EPOCH, EPOCH + 1024):
            guard.accept(frame(message, ONE.at(source).to_leader, LEADER, source, sender, 1, epoch))
            assert guard.speaker is None or guard.speaker.credentials.enrolment == ONE.enrolment
    for key in (ONE.at(FIRST).from_leader, Master(Key(ONE.secret)).signer, ONE.at(SECOND).to_leader):
        assert guard.accept(frame(message, key, LEADER, FIRST, sender, 9)) is None
    assert guard.highest_epoch == EPOCH and guard.twin is None


def test_a_host_deposes_no_leader_and_is_no_second_one() -> None:
    guard, _ = leading()
    assert guard.accept(frame(Ping(1), ONE.at(FIRST).to_leader, LEADER, FIRST, COORDINATOR, 1, EPOCH + 1024)) is None
    assert guard.accept(frame(Ping(1), ONE.at(FIRST).to_leader, LEADER, FIRST, COORDINATOR, 2, EPOCH)) is None
    assert guard.highest_epoch == EPOCH and guard.twin is None
    other = KeyRing(MASTER)
    later = LeaderAuthentication(other, find, lambda _: None)
    step = KeyStep(RotationStep.ACCEPT, 1, 2)
    assert guard.accept(frame(step, later, HEARTBEAT_MAC, SECOND, COORDINATOR, 3, EPOCH + 1024)) is None
    assert guard.highest_epoch == EPOCH + 1024, "but another leader does"


def test_a_host_uses_up_no_sequence_numbers_of_another_whatever_node_and_address_it_writes() -> None:
    guard, _ = leading()
    for source in (FIRST, SECOND):
        guard.accept(frame(Ping(1), ONE.at(source).to_leader, LEADER, source, 17, (1 << 62) - 1))
    assert guard.accept(frame(Ping(1), TWO.at(SECOND).to_leader, LEADER, SECOND, 17, 1)) is not None


def test_a_host_fills_no_windows_by_other_node_ids() -> None:
    guard, _ = leading()
    for sender in range(16, 200):
        guard.accept(frame(Ping(1), ONE.at(FIRST).to_leader, LEADER, FIRST, sender, sender))
    assert len(guard._windows) == 1


def test_no_frame_can_be_sent_back_to_its_sender() -> None:
    guard, way = leading()
    down = frame(Pong(1, 2, 3), way, FIRST, LEADER, COORDINATOR)
    up = frame(Leave(""), ONE.at(FIRST).to_leader, LEADER, FIRST, 16)
    assert guard.accept(LEADER + FIRST + down[12:]) is None
    agent = Guard(ONE.at(FIRST), epoch=EPOCH, address=FIRST)
    assert agent.accept(FIRST + LEADER + up[12:]) is None
    assert guard.accept(up) is not None and agent.accept(down) is not None


def test_who_only_hears_leaders_takes_what_is_signed_and_makes_nothing() -> None:
    _, way = leading()
    standby = Guard(MASTER, address=SECOND)
    step = KeyStep(RotationStep.ACCEPT, 1, 2)
    assert standby.accept(frame(step, way, HEARTBEAT_MAC, LEADER, COORDINATOR)) is not None
    assert standby.accept(frame(step, ONE.at(SECOND).from_leader, SECOND, LEADER, COORDINATOR, 2)) is None
    with pytest.raises(ValueError, match="stands by"):
        standby.authentications[3].tag(b"x" * 60)
    with pytest.raises(ValueError, match="no host"):
        LeaderAuthentication(KeyRing(MASTER), find, lambda _: None).tag(b"x" * 60)


@given(st.integers(0, 112), st.data())
@PROPERTY
def test_cut_frames_are_refused(cut: int, data: st.DataObject) -> None:
    guard, _ = leading()
    whole = frame(Leave("x" * 60), ONE.at(FIRST).to_leader, LEADER, FIRST, 16)
    assert guard.accept(whole[: len(whole) - 1 - cut]) is None
    assert guard.accept(whole + data.draw(st.binary(min_size=1, max_size=50))) is None
    assert guard.accept(whole) is not None
