"""Two ends agree on the newest version that both speak, or refuse each other in words; a guard keeps to what was agreed."""

from __future__ import annotations

import pytest
from hypothesis import given

from protocol.auth import Guard, authentications
from protocol.bodies.versions import NEWEST, SPOKEN, TOLD_NS, Unspoken, Versions
from protocol.keyring import KeyRing, SharedAuthentication
from protocol.messages import HEARTBEAT_MAC, Cause, Heartbeat, Message, Override, Ping
from tests.unit.protocol.protocol_strategies import HOST, KEY, LEADER, OTHER_KEY, PROPERTY, frame_of, versions

OLD = SPOKEN.lowest
HEARTBEAT = Heartbeat(Override.COORDINATE, 1, 1)


class TestAgreement:
    """Of any two ranges."""

    @given(versions, versions)
    @PROPERTY
    def test_it_is_the_newest_that_both_speak_or_none(self, ours: Versions, theirs: Versions) -> None:
        common = [version for version in range(256) if ours.speaks(version) and theirs.speaks(version)]
        assert ours.agreed(theirs) == theirs.agreed(ours) == (max(common) if common else None)

    def test_one_version_back_is_spoken(self) -> None:
        assert SPOKEN == (NEWEST - 1, NEWEST)
        assert authentications(KeyRing(KEY)).keys() == set(range(OLD, NEWEST + 1)), "each version says how it is authenticated"


class World:
    """A member's guard, and its leader's frames."""

    def __init__(self) -> None:
        self.guard = Guard(KEY, epoch=5, address=HOST)
        self.sequence = 0

    def takes(self, version: int, message: Message = HEARTBEAT, to: bytes = HEARTBEAT_MAC, epoch: int = 5) -> bool:
        self.sequence += 1
        words = {"destination": to, "epoch": epoch, "sequence": self.sequence}
        return self.guard.accept(frame_of(message, **words, version=version)) is not None


class TestGuard:
    """What a member takes of which version."""

    def test_before_an_agreement_it_takes_all_that_we_speak(self) -> None:
        world = World()
        assert all(world.takes(version) for version in range(OLD, NEWEST + 1))
        assert not world.guard.refused

    def test_after_it_no_older_one_counts_and_copies_for_others_are_no_refusals(self) -> None:
        world = World()
        world.guard.agree(NEWEST)
        assert world.takes(NEWEST) and not world.takes(OLD)
        assert not world.guard.refused
        assert not world.takes(OLD, Ping(1), HOST)
        assert world.guard.refused == {Cause.VERSION: 1}

    def test_what_was_meant_for_another_host_is_no_other_version(self) -> None:
        world = World()
        world.guard.agree(NEWEST)
        assert not world.takes(OLD, Ping(1), LEADER) and not world.takes(NEWEST, Ping(1), LEADER)
        assert world.guard.refused == {Cause.NOT_OURS: 2}

    def test_numbers_used_in_one_version_take_none_of_another(self) -> None:
        guard = Guard(KEY, epoch=5, leader=True, address=HOST)
        words = {"destination": HOST, "source": LEADER, "sender": 16, "epoch": 5}
        assert guard.accept(frame_of(Ping(1), **words, sequence=10, version=NEWEST)) is not None
        assert guard.accept(frame_of(Ping(1), **words, sequence=10_000, version=OLD)) is not None
        assert guard.accept(frame_of(Ping(1), **words, sequence=11, version=NEWEST)) is not None
        for version, sequence in ((NEWEST, 11), (OLD, 10_000)):
            assert guard.accept(frame_of(Ping(1), **words, sequence=sequence, version=version)) is None
        assert guard.refused == {Cause.REPLAY: 2}

    def test_a_later_leader_of_an_older_version_counts_only_once_ours_is_silent(self) -> None:
        world = World()
        world.guard.agree(NEWEST)
        assert not world.takes(OLD, epoch=6) and world.guard.epoch == 5
        world.guard.listen()
        assert not world.takes(OLD), "the same leader's older version does not count even then"
        assert world.takes(OLD, epoch=6) and (world.guard.epoch, world.guard.speaks) == (6, OLD)

    def test_a_newer_version_than_agreed_is_heard(self) -> None:
        world = World()
        world.takes(OLD, epoch=6)
        world.guard.agree(OLD)
        assert world.takes(NEWEST, epoch=6) and (world.guard.speaks, world.guard.heard) == (OLD, NEWEST)

    @pytest.mark.parametrize("version", [0, OLD - 1, NEWEST + 1, 255])
    def test_a_version_that_we_do_not_speak_is_refused_and_its_source_kept(self, version: int) -> None:
        guard = Guard(KEY, epoch=5, leader=True, address=HOST)
        frame = bytearray(frame_of(Ping(1), sender=16, epoch=5))
        frame[16] = version
        assert guard.accept(bytes(frame)) is None
        assert guard.refused == {Cause.VERSION: 1} and guard.foreign == (version, bytes(frame[6:12]))

    def test_a_flag_is_refused_and_is_no_other_version(self) -> None:
        guard = Guard(KEY, epoch=5)
        frame = bytearray(frame_of(Ping(1), epoch=5))
        frame[18] = 1
        assert guard.accept(bytes(frame)) is None and guard.refused == {Cause.VERSION: 1} and guard.foreign is None

    def test_each_version_is_authenticated_in_its_own_way(self) -> None:
        guard = Guard(KEY, epoch=5)
        guard.authentications = {OLD: SharedAuthentication(KeyRing(KEY)), NEWEST: SharedAuthentication(KeyRing(OTHER_KEY))}
        guard.listen()
        for number, (version, key, taken) in enumerate(
            ((OLD, KEY, True), (NEWEST, KEY, False), (NEWEST, OTHER_KEY, True), (OLD, OTHER_KEY, False))
        ):
            frame = frame_of(Ping(1), key=key, epoch=5, sequence=number + 1, version=version)
            assert (guard.accept(frame) is not None) is taken, (version, taken)


class TestUnspoken:
    """An operator hears it once a minute, with what to upgrade."""

    def test_it_is_told_once_a_minute_for_each_version_and_forgotten_when_it_ends(self) -> None:
        unspoken = Unspoken("this agent", "the controller", Versions(2, 3))
        first = unspoken.heard(4, HOST, 0)
        assert HOST.hex(":") in first and "version 4" in first and "2 to 3" in first and first.endswith("upgrade this agent")
        assert not unspoken.heard(4, HOST, TOLD_NS - 1)
        assert unspoken.heard(1, HOST, 1).endswith("upgrade the controller there")
        assert unspoken.heard(4, HOST, TOLD_NS) == first
        assert len(unspoken.warnings()) == 2
        unspoken.forget(TOLD_NS + 1)
        assert unspoken.warnings() == [first]

    def test_a_flood_of_all_versions_is_kept_small(self) -> None:
        unspoken = Unspoken("this agent", "the controller")
        lines = [unspoken.heard(number % 256, number.to_bytes(6, "big"), number) for number in range(100_000)]
        assert sum(map(bool, lines)) == len(unspoken.warnings()) == 256
