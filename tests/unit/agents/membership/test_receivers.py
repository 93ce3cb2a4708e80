"""What the coordinator and the agent do with frames that are authentic but not theirs to obey; and an agent's keys."""

from __future__ import annotations

from pathlib import Path

from agents.membership.keys import LOOK_NS, Keys
from bench.fuzz.receivers import EPOCH, LEADER_MAC, agent, coordinator, frame, mac
from protocol.auth import Guard
from protocol.bodies.keys import KeyState, KeyStep, RotationStep
from protocol.key import Key
from protocol.key_files import new_beside
from protocol.keyring import KeyRing
from protocol.messages import Cause, Heartbeat, Message, Override, Ping

KEY = Key(bytes(32))


def test_a_member_cannot_speak_for_another_from_its_own_address() -> None:
    ring = KeyRing(KEY)
    target = coordinator(ring)
    ping = frame(Ping(1), ring, source=mac(2), destination=LEADER_MAC, sender=16, sequence=1 << 40)
    target.take(ping, 1)
    assert target.guard.refused[Cause.UNKNOWN_SENDER] == 1
    own = frame(Ping(1), ring, source=mac(1), destination=LEADER_MAC, sender=16, sequence=1 << 40)
    target.take(own, 1)
    assert target.guard.refused[Cause.UNKNOWN_SENDER] == 1


def test_an_agent_sends_with_its_leaders_key_from_the_first_frame_on() -> None:
    ring = KeyRing(KEY, Key(bytes([1]) * 32))
    target = agent(ring)
    new = KeyRing(Key(bytes([1]) * 32))
    heartbeat = frame(Heartbeat(Override.COORDINATE, 1, 1), new, source=LEADER_MAC, destination=mac(1), sender=1, sequence=9)
    target.take(heartbeat, 1)
    assert target.guard.accepted == 1 and target.guard.epoch == EPOCH
    assert ring.sending.fingerprint == new.sending.fingerprint


class Surroundings:
    """An agent as its keys see it."""

    def __init__(self, *, member: bool = True) -> None:
        self.member = member
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)


class TestKeysOfAnAgent:
    """Taken when their file is there, or at a signal; told when asked."""

    def test_a_new_key_is_taken_within_a_second_or_at_once_by_a_signal(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        ring = Guard(Key.generate(file)).ring
        keys = Keys(Surroundings(), ring, file)  # type: ignore[arg-type]
        keys.advance(1)
        Key.generate(new_beside(file))
        keys.advance(2)
        assert ring.other is None and keys.next_due_ns() == 1 + LOOK_NS
        keys.look()
        keys.advance(3)
        assert ring.other is not None

    def test_a_step_is_answered_with_the_keys_in_use_once_we_are_a_member(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        old, new = Key.generate(file), Key.generate(new_beside(file))
        for member in (False, True):
            around = Surroundings(member=member)
            keys = Keys(around, KeyRing(old), file)  # type: ignore[arg-type]
            keys.handlers[KeyStep](KeyStep(RotationStep.ACCEPT, old.fingerprint, new.fingerprint), 1)
            assert around.sent == ([KeyState(old.fingerprint, new.fingerprint)] if member else [])
