"""A fabric changes its key: at no moment does anybody refuse a frame, and at the end nobody takes the old key."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.members.key_rotation import KeyRotation
from controller.members.registry import Members
from protocol.auth import Guard, Key, KeyRing
from protocol.bodies.keys import KeyState, KeyStep, RotationStep
from protocol.key import put_in_place
from protocol.key_files import KeyFiles, name, new_beside
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, Cause, Message, Ping, encode

LEADER = b"\x02\0\0\0\0\xfe"
OLD, NEW, FORGER = (Key(bytes([number]) * 32) for number in (1, 2, 3))


def frame(message: Message, key: Key, sequence: int, sender: int = COORDINATOR, source: bytes = LEADER) -> bytes:
    return encode(
        message, key=key, destination=HEARTBEAT_MAC, source=source, sender=sender, epoch=1, sequence=sequence
    )


class TestTwoKeys:
    """The second is tried when the first fails, and only then."""

    def test_both_keys_are_taken_and_a_third_is_not(self) -> None:
        guard = Guard(KeyRing(OLD, NEW))
        assert guard.accept(frame(Ping(1), OLD, 1)) is not None
        assert guard.accept(frame(Ping(1), NEW, 2)) is not None
        assert guard.accept(frame(Ping(1), FORGER, 3)) is None
        assert guard.refused == {Cause.TAG: 1}

    def test_without_a_change_no_second_key_is_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tried: list[Key] = []
        monkeypatch.setattr(Key, "proves", lambda key, data, tag: bool(tried.append(key)))
        Guard(OLD).accept(frame(Ping(1), NEW, 1))
        assert tried == [OLD]

    def test_what_the_first_key_refuses_for_another_reason_is_not_tried_again(self) -> None:
        guard = Guard(KeyRing(OLD, NEW))
        assert guard.accept(b"short") is None
        assert guard.refused == {Cause.SHORT: 1}

    def test_a_replay_is_refused_whatever_key_made_the_first(self) -> None:
        guard = Guard(KeyRing(OLD, NEW))
        assert guard.accept(frame(Ping(1), OLD, 7)) is not None
        assert guard.accept(frame(Ping(1), NEW, 7)) is None
        assert guard.refused == {Cause.REPLAY: 1}

    def test_a_member_sends_with_the_key_of_its_leader(self) -> None:
        guard = Guard(KeyRing(OLD, NEW))
        guard.accept(frame(Ping(1), NEW, 1))
        assert guard.ring.sending is NEW and guard.ring.other is OLD

    def test_a_frame_that_is_refused_changes_no_key(self) -> None:
        guard = Guard(KeyRing(OLD, NEW), epoch=5)
        guard.accept(frame(Ping(1), NEW, 1))
        assert guard.refused == {Cause.OLD_EPOCH: 1} and guard.ring.sending is OLD

    def test_a_leader_does_not_follow_its_members(self) -> None:
        guard = Guard(KeyRing(OLD, NEW), epoch=1, leader=True)
        assert guard.accept(frame(Ping(1), NEW, 1, sender=16)) is not None
        assert guard.ring.sending is OLD


class TestFiles:
    """FILE and FILE.new say which keys are taken."""

    def test_a_key_beside_the_key_is_taken_too_and_no_more_when_it_is_gone(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        old = Key.generate(file)
        files = KeyFiles(file, KeyRing(old))
        assert files.refresh() == []
        new = Key.generate(new_beside(file))
        assert name(new.fingerprint) in files.refresh()[0]
        assert files.ring.fingerprints() == (old.fingerprint, new.fingerprint)
        new_beside(file).unlink()
        files.refresh()
        assert files.ring.fingerprints() == (old.fingerprint, 0)

    def test_a_file_that_is_half_written_or_open_to_others_changes_nothing(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        files = KeyFiles(file, KeyRing(Key.generate(file)))
        new_beside(file).write_text("ab")
        new_beside(file).chmod(0o644)
        assert "stay" in files.refresh()[0] and files.ring.other is None
        new_beside(file).unlink()
        Key.generate(new_beside(file))
        files.refresh()
        assert files.ring.other is not None

    def test_a_file_that_belongs_to_another_user_is_told_once_and_taken_when_it_is_given_to_us(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        files = KeyFiles(path, KeyRing(Key.generate(path)))
        assert files.refresh() == []
        Key.generate(new_beside(path))
        os.chown(new_beside(path), 1000, 1000)
        (line,) = files.refresh()
        assert "is owned by uid 1000" in line and files.refresh() == []
        os.chown(new_beside(path), 0, 0)
        (line,) = files.refresh()
        assert "is accepted, too" in line

    def test_the_new_key_takes_the_place_of_the_old_in_one_step_and_stays_secret(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        old, new = Key.generate(file), Key.generate(new_beside(file))
        files = KeyFiles(file, KeyRing(new, old))
        files.apply(KeyStep(RotationStep.DROP, old.fingerprint, new.fingerprint))
        assert Key.load(file).fingerprint == new.fingerprint and not new_beside(file).exists()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert files.ring.fingerprints() == (new.fingerprint, 0)

    def test_the_new_key_is_on_the_disk_before_it_takes_the_place_of_the_old(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        sync, replace = os.fsync, Path.replace

        def synced(descriptor: int) -> None:
            done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            sync(descriptor)

        def replaced(fresh: Path, path: Path) -> Path:
            done.append(f"{fresh.name} replaces {path.name}")
            return replace(fresh, path)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "replace", replaced)
        path = tmp_path / "key"
        Key.generate(path)
        Key.generate(new_beside(path))
        put_in_place(new_beside(path), path)
        assert done == ["key", "key.new", "key.new", "key.new replaces key", tmp_path.name]

    def test_nothing_is_dropped_while_we_still_send_with_it(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        old, new = Key.generate(file), Key.generate(new_beside(file))
        files = KeyFiles(file, KeyRing(old))
        files.apply(KeyStep(RotationStep.DROP, old.fingerprint, new.fingerprint))
        assert files.ring.fingerprints() == (old.fingerprint, new.fingerprint)

    def test_a_key_that_is_given_up_is_removed(self, tmp_path: Path) -> None:
        file = tmp_path / "key"
        old, new = Key.generate(file), Key.generate(new_beside(file))
        files = KeyFiles(file, KeyRing(old))
        files.apply(KeyStep(RotationStep.CANCEL, old.fingerprint, new.fingerprint))
        assert files.ring.fingerprints() == (old.fingerprint, 0) and not new_beside(file).exists()

    def test_the_fingerprint_is_not_part_of_the_key_and_differs(self) -> None:
        assert len({OLD.fingerprint, NEW.fingerprint, FORGER.fingerprint}) == 3
        assert OLD.fingerprint.to_bytes(8) not in bytes([1]) * 32


class World:
    """A leader and members with files of their own; frames arrive in any order, or not at all."""

    def __init__(self, directory: Path, members: int) -> None:
        self.files: list[KeyFiles] = []
        self.guards: list[Guard] = []
        directory.mkdir()
        secret = Key.generate(directory / "origin")
        self.old = secret
        for number in range(members + 1):
            path = directory / f"{number}" / "key"
            path.parent.mkdir()
            path.write_bytes((directory / "origin").read_bytes())
            path.chmod(0o600)
            guard = Guard(KeyRing(Key.load(path)), epoch=1, leader=not number)
            self.guards.append(guard)
            self.files.append(KeyFiles(path, guard.ring))
        self.new = Key.generate(directory / "origin.new")
        self.directory = directory
        self.sent: list[tuple[Message, bytes]] = []
        self.registry = Members()
        for number in range(1, members + 1):
            self.registry.register(bytes([2, 0, 0, 0, 0, number]), f"h{number}", 10**9, (), "tbf", "1", 0)
        leader = self.guards[0]
        self.rotation = KeyRotation(
            leader.ring, self.files[0].path, self.registry, lambda *sent: self.sent.append(sent), lambda _: None
        )
        self.sequence = 0
        self.now_ns = 0

    def copy_new(self, number: int) -> None:
        path = new_beside(self.files[number].path)
        if not path.exists() and Key.load(self.files[number].path).fingerprint == self.old.fingerprint:
            path.write_bytes((self.directory / "origin.new").read_bytes())
            path.chmod(0o600)

    def step(self, step: RotationStep) -> None:
        self.rotation.take({"step": step.name, "old": name(self.old.fingerprint), "new": name(self.new.fingerprint)}, 0)

    def turn(self, lost: Iterator[bool]) -> None:
        """A second goes by: the leader tells, members answer; any frame may be lost. A refusal is an error."""
        self.sent.clear()
        self.rotation.advance(self.now_ns)
        for message, _ in self.sent:
            raw = self._frame(message, 0)
            for number in range(1, len(self.guards)):
                if next(lost):
                    continue
                taken = self.guards[number].accept(raw)
                assert taken is not None, self.guards[number].refused
                assert isinstance(taken.message, KeyStep)
                self.files[number].apply(taken.message)
                answer = self._frame(KeyState(*self.guards[number].ring.fingerprints()), number)
                heard = self.guards[0].accept(answer)
                assert heard is not None, self.guards[0].refused
                if not next(lost):
                    self.rotation.handlers[KeyState](self.registry.present()[number - 1], heard.message, 0)

    def waiting(self) -> list[str]:
        return list(self.rotation.status()["key"]["waiting_for"])

    def _frame(self, message: Message, number: int) -> bytes:
        self.sequence += 1
        source = bytes([2, 0, 0, 0, 0, number]) if number else LEADER
        return frame(message, self.guards[number].ring.sending, self.sequence, 15 + number if number else COORDINATOR, source)


def never() -> Iterator[bool]:
    while True:
        yield False


class TestTheChange:
    """ACCEPT, SEND, DROP: each step waits for everybody, and nobody refuses anything on the way."""

    @given(losses=st.lists(st.booleans(), max_size=60), members=st.integers(1, 4))
    @settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_no_frame_is_refused_whatever_is_lost(
        self, tmp_path_factory: pytest.TempPathFactory, losses: list[bool], members: int
    ) -> None:
        world = World(tmp_path_factory.mktemp("world") / "w", members)

        def lost() -> Iterator[bool]:
            yield from losses
            yield from never()

        flow = lost()
        for number in range(members + 1):
            world.copy_new(number)
        for step in (RotationStep.ACCEPT, RotationStep.SEND, RotationStep.DROP):
            world.step(step)
            for _ in range(70):
                world.turn(flow)
                if not world.waiting():
                    break
            assert not world.waiting()
        for guard, files in zip(world.guards, world.files, strict=True):
            assert guard.ring.fingerprints() == (world.new.fingerprint, 0)
            assert Key.load(files.path).fingerprint == world.new.fingerprint
            assert guard.accept(frame(Ping(1), world.old, 10_000)) is None

    def test_a_host_without_the_new_file_is_named_and_waited_for(self, tmp_path: Path) -> None:
        world = World(tmp_path / "w", 3)
        for number in (0, 1, 3):
            world.copy_new(number)
        world.step(RotationStep.ACCEPT)
        world.turn(never())
        assert world.waiting() == ["h2"]

    def test_a_change_that_is_given_up_leaves_the_old_key_everywhere(self, tmp_path: Path) -> None:
        world = World(tmp_path / "w", 2)
        for number in range(3):
            world.copy_new(number)
        for step in (RotationStep.ACCEPT, RotationStep.SEND, RotationStep.ACCEPT, RotationStep.CANCEL):
            world.step(step)
            world.turn(never())
            world.turn(never())
            assert not world.waiting()
        assert {guard.ring.fingerprints() for guard in world.guards} == {(world.old.fingerprint, 0)}

    def test_a_leader_that_starts_in_the_middle_goes_on(self, tmp_path: Path) -> None:
        world = World(tmp_path / "w", 1)
        for number in range(2):
            world.copy_new(number)
        for step in (RotationStep.ACCEPT, RotationStep.SEND):
            world.step(step)
            world.turn(never())
        fresh = KeyRing(Key.load(world.files[0].path))
        sent: list[Any] = []
        rotation = KeyRotation(fresh, world.files[0].path, world.registry, lambda *one: sent.append(one), lambda _: None)
        rotation.advance(0)
        rotation.take({"step": "send", "old": name(world.old.fingerprint), "new": name(world.new.fingerprint)}, 0)
        assert fresh.sending.fingerprint == world.new.fingerprint and sent

    def test_a_controller_without_the_new_file_says_so_and_sends_on_with_the_old(self, tmp_path: Path) -> None:
        world = World(tmp_path / "w", 1)
        world.copy_new(1)
        world.step(RotationStep.SEND)
        world.turn(never())
        assert "put its file beside" in world.rotation.status()["key"]["problem"]
        assert world.guards[0].ring.sending.fingerprint == world.old.fingerprint

    def test_a_step_that_makes_no_sense_changes_nothing(self, tmp_path: Path) -> None:
        world = World(tmp_path / "w", 1)
        world.rotation.take({"step": "jump", "old": "0", "new": "zz"}, 0)
        assert world.rotation.status()["key"]["sending"] == name(world.old.fingerprint)


@pytest.mark.parametrize(
    "document",
    [
        {"step": "later", "old": "1", "new": "2"},
        {"step": "accept", "old": 1, "new": "2"},
        {"step": "accept", "old": "1", "new": "1" + "0" * 16},
        {"step": "accept"},
    ],
)
def test_a_step_that_is_none_is_told_for_as_long_as_the_store_holds_it(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(OLD.secret.hex())
    path.chmod(0o600)
    ring: Any = KeyRing(OLD)
    rotation = KeyRotation(ring, path, Members(), lambda *_: None, lambda *_: None)
    assert rotation.warnings() == []
    rotation.take(document, 0)
    rotation.advance(1)
    (told,) = rotation.warnings()
    assert "no step" in told and ";" in told
    rotation.take({"step": "accept", "old": f"{OLD.fingerprint:x}", "new": "2"}, 2)
    rotation.advance(3)
    assert rotation.warnings() == []
