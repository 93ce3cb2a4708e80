"""Keys, replay windows, and the guard's judgement of authentic frames."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.auth import EPOCHS_AHEAD, LAST_EPOCH, WINDOW, Guard, Key, KeyFileError, ReplayWindow
from protocol.keys import host_file
from protocol.messages import COORDINATOR, HEARTBEAT_MAC, UNREGISTERED, Cause, Heartbeat, Override, Ping
from tests.unit.protocol.protocol_strategies import HOST, KEY, LEADER, OTHER_KEY, PROPERTY, frame_of, messages

PING = Ping(1)


def from_leader(epoch: int = 1, sequence: int = 1, destination: bytes = HOST) -> bytes:
    return frame_of(PING, epoch=epoch, sequence=sequence, destination=destination)


def from_member(node: int = 16, epoch: int = 1, sequence: int = 1, source: bytes = HOST) -> bytes:
    return frame_of(PING, sender=node, epoch=epoch, sequence=sequence, source=source, destination=LEADER)


class TestKey:
    """A key is a file that only its owner can read."""

    def test_a_generated_key_is_loaded_again(self, tmp_path: Path) -> None:
        made = Key.generate(tmp_path / "key")
        assert Key.load(tmp_path / "key").tag(b"frame") == made.tag(b"frame")
        assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600

    def test_two_generated_keys_differ(self, tmp_path: Path) -> None:
        assert Key.generate(tmp_path / "a").tag(b"") != Key.generate(tmp_path / "b").tag(b"")

    def test_the_tag_is_keyed_blake2s_of_16_bytes(self) -> None:
        expected = hashlib.blake2s(
            b"frame", key=bytes(range(32)), digest_size=16, person=b"baton v1"
        ).digest()
        assert KEY.tag(b"frame") == expected

    def test_an_existing_file_is_never_overwritten(self, tmp_path: Path) -> None:
        Key.generate(tmp_path / "key")
        before = (tmp_path / "key").read_bytes()
        with pytest.raises(KeyFileError, match="exists"):
            Key.generate(tmp_path / "key")
        assert (tmp_path / "key").read_bytes() == before

    def test_a_directory_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(KeyFileError, match="nowhere"):
            Key.generate(tmp_path / "nowhere" / "key")

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622, 0o601])
    def test_a_file_open_to_others_is_refused(self, tmp_path: Path, mode: int) -> None:
        Key.generate(tmp_path / "key")
        (tmp_path / "key").chmod(mode)
        with pytest.raises(KeyFileError, match=f"{mode:04o} .*chmod 600"):
            Key.load(tmp_path / "key")

    @pytest.mark.parametrize("content", [b"", b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64, bytes(32)])
    def test_a_file_that_holds_something_else_is_refused(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "key"
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(KeyFileError, match="64 hexadecimal digits"):
            Key.load(path)

    def test_a_hosts_file_is_told_from_a_damaged_one_and_neither_asks_for_another_master_key(self, tmp_path: Path) -> None:
        cases = (
            ('{"baton": "host", "name": "h1"}', "holds a host's key; name the controllers' master key"),
            ("00" * 31, "64 hexadecimal digits and no more; name the right file, or restore it"),
        )
        for content, says in cases:
            path = tmp_path / "key"
            path.write_text(content)
            path.chmod(0o600)
            with pytest.raises(KeyFileError, match=says):
                Key.load(path)

    def test_what_is_no_regular_file_is_refused_without_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "fifo", 0o600)
        for path in (tmp_path / "fifo", tmp_path):
            with pytest.raises(KeyFileError, match="regular file"):
                Key.load(path)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(KeyFileError, match=r"nokey: No such file.*or make one by `baton key generate`"):
            Key.load(tmp_path / "nokey")
        with pytest.raises(KeyFileError, match=r"nohost: No such file.*or make one by `baton host enroll NAME`"):
            host_file.load(tmp_path / "nohost")

    @pytest.mark.parametrize("size", [0, 16, 31, 33])
    def test_a_secret_of_another_length_is_refused(self, size: int) -> None:
        with pytest.raises(ValueError, match="secret"):
            Key(bytes(size))

    def test_errors_and_representations_do_not_show_the_secret(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_text("ab" * 31 + "xx")
        path.chmod(0o600)
        with pytest.raises(KeyFileError) as error:
            Key.load(path)
        assert "abab" not in str(error.value) and error.value.__cause__ is None
        assert bytes(range(32)).hex() not in repr(KEY)


class TestReplayWindow:
    """A number is taken once; in any order within the window, and never when older."""

    @given(st.lists(st.integers(0, 200)))
    @PROPERTY
    def test_it_takes_what_a_set_of_all_numbers_seen_would(self, numbers: list[int]) -> None:
        window, seen = ReplayWindow(), set()
        for number in numbers:
            highest = max(seen, default=-1)
            expected = number not in seen and number > highest - WINDOW
            assert window.accept(number) == expected
            if expected:
                seen.add(number)

    @given(st.integers(0, 1 << 63), st.permutations(range(WINDOW)))
    @PROPERTY
    def test_any_order_within_the_window_is_taken_once(self, base: int, order: list[int]) -> None:
        window = ReplayWindow()
        assert all(window.accept(base + offset) for offset in order)
        assert not any(window.accept(base + offset) for offset in order)

    @given(st.integers(0, 1 << 63), st.lists(st.integers(0, 200), min_size=1))
    @PROPERTY
    def test_nothing_up_to_its_start_is_taken(self, start: int, ahead: list[int]) -> None:
        window = ReplayWindow(start)
        for step in ahead:
            window.accept(start + step)
        assert not any(window.accept(start - back) for back in range(min(start, 2 * WINDOW)))

    def test_older_than_the_window_is_refused(self) -> None:
        window = ReplayWindow()
        assert window.accept(1000)
        assert window.accept(1000 - WINDOW + 1)
        assert not window.accept(1000 - WINDOW)


class TestMember:
    """A member's guard hears the leader only, and follows it to a higher epoch."""

    def test_a_frame_of_the_leader_is_taken(self) -> None:
        frame = Guard(KEY, epoch=1).accept(from_leader())
        assert frame is not None and frame.message == PING and frame.sender == COORDINATOR

    def test_a_replay_is_refused(self) -> None:
        guard = Guard(KEY)
        assert guard.accept(from_leader()) is not None
        assert guard.accept(from_leader()) is None
        assert guard.refused == {Cause.REPLAY: 1} and guard.accepted == 1

    def test_a_higher_epoch_is_adopted_and_the_old_one_refused_from_then_on(self) -> None:
        guard = Guard(KEY, epoch=1)
        assert guard.accept(from_leader(epoch=2, sequence=5)) is not None
        assert guard.epoch == 2
        assert guard.accept(from_leader(epoch=1, sequence=6)) is None
        assert guard.refused == {Cause.OLD_EPOCH: 1}

    def test_a_new_leader_with_a_slower_clock_is_heard(self) -> None:
        guard = Guard(KEY)
        assert guard.accept(from_leader(epoch=1, sequence=1_000_000)) is not None
        assert guard.accept(from_leader(epoch=2, sequence=10)) is not None

    def test_a_higher_epoch_is_not_adopted_from_a_member_a_forger_or_a_replay_to_another(self) -> None:
        guard = Guard(KEY, epoch=1, address=HOST)
        assert guard.accept(from_member(epoch=9)) is None
        assert guard.accept(frame_of(PING, key=OTHER_KEY, epoch=9)) is None
        assert guard.accept(from_leader(epoch=9, destination=LEADER)) is None
        assert guard.epoch == 1

    def test_other_members_are_not_heard(self) -> None:
        guard = Guard(KEY, epoch=1)
        assert guard.accept(from_member()) is None
        assert guard.refused == {Cause.NOT_LEADER: 1}

    def test_only_frames_to_it_and_to_all_are_taken(self) -> None:
        guard = Guard(KEY, address=HOST)
        heartbeat = frame_of(Heartbeat(Override.COORDINATE, 1, 1), destination=HEARTBEAT_MAC, sequence=2)
        assert guard.accept(heartbeat) is not None
        assert guard.accept(from_leader(sequence=3)) is not None
        assert guard.accept(from_leader(sequence=4, destination=LEADER)) is None
        assert guard.refused == {Cause.NOT_OURS: 1}


    def test_a_heartbeat_is_taken_however_many_frames_to_hosts_were_sent_after_it(self) -> None:
        guard = Guard(KEY, address=HOST)
        heartbeats = [
            frame_of(Heartbeat(Override.COORDINATE, 1, 1), destination=HEARTBEAT_MAC, sequence=number) for number in (1, 2)
        ]
        assert all(guard.accept(from_leader(sequence=number)) for number in range(10, 10 + 2 * WINDOW))
        assert guard.accept(heartbeats[1]) is not None and guard.accept(heartbeats[0]) is not None
        assert guard.accept(heartbeats[1]) is None and guard.accept(from_leader(sequence=10)) is None
        assert guard.refused == {Cause.REPLAY: 2}


class TestLeader:
    """A leader's guard hears members, of exactly its epoch."""

    def test_old_and_future_epochs_are_refused_and_not_adopted(self) -> None:
        guard = Guard(KEY, epoch=5, leader=True)
        assert guard.accept(from_member(epoch=4)) is None
        assert guard.accept(from_member(epoch=6)) is None
        assert guard.accept(from_member(epoch=5)) is not None
        assert guard.epoch == 5
        assert guard.refused == {Cause.OLD_EPOCH: 1, Cause.FUTURE_EPOCH: 1}

    def test_its_own_frames_reflected_are_refused(self) -> None:
        guard = Guard(KEY, epoch=1, leader=True)
        assert guard.accept(from_leader()) is None
        assert guard.refused == {Cause.NOT_LEADER: 1}

    def test_hosts_not_yet_welcomed_are_told_apart_by_their_address(self) -> None:
        guard = Guard(KEY, epoch=1, leader=True)
        assert guard.accept(from_member(UNREGISTERED, sequence=1_000_000, source=HOST)) is not None
        assert guard.accept(from_member(UNREGISTERED, sequence=5, source=LEADER)) is not None
        assert guard.accept(from_member(UNREGISTERED, sequence=5, source=LEADER)) is None

    def test_members_have_windows_of_their_own(self) -> None:
        guard = Guard(KEY, epoch=1, leader=True)
        assert guard.accept(from_member(16, sequence=1_000)) is not None
        assert guard.accept(from_member(17, sequence=1)) is not None

    def test_a_forgotten_members_frames_stay_refused_and_newer_ones_are_taken(self) -> None:
        guard = Guard(KEY, epoch=1, leader=True)
        for sequence in (100, 105):
            assert guard.accept(from_member(sequence=sequence)) is not None
        guard.forget(16)
        for sequence in (100, 103, 105):
            assert guard.accept(from_member(sequence=sequence)) is None
        assert guard.accept(from_member(sequence=106)) is not None

    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("frame"), st.integers(16, 22), st.integers(0, 12)),
                st.tuples(st.just("forget"), st.integers(16, 22), st.just(0)),
            )
        ),
        st.integers(1, 4),
        st.integers(0, 3),
    )
    @PROPERTY
    def test_however_little_is_remembered_nothing_is_accepted_twice(
        self, steps: list[tuple[str, int, int]], senders: int, remembered: int
    ) -> None:
        guard = Guard(KEY, epoch=1, leader=True, senders=senders, remembered=max(1, remembered))
        taken = set()
        for step, node, sequence in steps:
            if step == "forget":
                guard.forget(node)
            elif guard.accept(from_member(node, sequence=sequence)) is not None:
                assert (node, sequence) not in taken
                taken.add((node, sequence))
            assert len(guard._windows) <= senders and len(guard._highest) <= max(1, remembered)


class TestEpochs:
    """Epochs only grow."""

    @pytest.mark.parametrize("leader", [False, True])
    def test_an_epoch_adopted_by_hand_refuses_what_was_before(self, leader: bool) -> None:
        make: Callable[..., bytes] = from_member if leader else from_leader
        guard = Guard(KEY, epoch=1, leader=leader)
        guard.adopt(3)
        assert guard.accept(make(epoch=2)) is None
        assert guard.accept(make(epoch=3)) is not None

    def test_adopting_the_present_epoch_forgets_nothing(self) -> None:
        guard = Guard(KEY, epoch=1)
        assert guard.accept(from_leader()) is not None
        guard.adopt(1)
        assert guard.accept(from_leader()) is None

    def test_a_lower_epoch_cannot_be_adopted(self) -> None:
        with pytest.raises(ValueError, match="epochs only grow"):
            Guard(KEY, epoch=2).adopt(1)


    def test_a_members_frame_of_a_later_epoch_does_not_depose_a_leader(self) -> None:
        guard = Guard(KEY, epoch=5, leader=True)
        for epoch in (6, 1 << 20, (1 << 32) - 1):
            assert guard.accept(from_member(epoch=epoch)) is None
        assert guard.highest_epoch == 5 and guard.refused == {Cause.FUTURE_EPOCH: 3}
        assert guard.accept(from_leader(epoch=6)) is None
        assert guard.highest_epoch == 6

    @pytest.mark.parametrize("leader", [False, True])
    def test_an_epoch_that_is_years_ahead_is_not_believed(self, leader: bool) -> None:
        now = 1_800_000_000
        guard = Guard(KEY, epoch=now, leader=leader)
        for epoch in (now + EPOCHS_AHEAD + 1, LAST_EPOCH, (1 << 32) - 1):
            assert guard.accept(from_leader(epoch=epoch)) is None
        assert guard.epoch == guard.highest_epoch == now and guard.refused == {Cause.FUTURE_EPOCH: 3}
        guard.accept(from_leader(epoch=now + EPOCHS_AHEAD))
        assert guard.highest_epoch == now + EPOCHS_AHEAD

    def test_who_knows_no_epoch_believes_any_that_a_leader_can_have(self) -> None:
        assert Guard(KEY).accept(from_leader(epoch=LAST_EPOCH + 1)) is None
        assert Guard(KEY).accept(from_leader(epoch=1_800_000_000)) is not None

    def test_who_knows_the_time_believes_no_first_epoch_that_is_years_ahead(self) -> None:
        now = 1_800_000_000
        guard = Guard(KEY, known=now)
        assert guard.accept(from_leader(epoch=now + EPOCHS_AHEAD + 1)) is None and not guard.epoch
        assert guard.accept(from_leader(epoch=now - 1)) is not None and guard.epoch == now - 1

    def test_a_member_hears_one_of_two_leaders_of_an_epoch(self) -> None:
        guard, other = Guard(KEY, epoch=1), bytes.fromhex("0200000000fd")
        assert guard.accept(from_leader(epoch=2)) is not None
        for destination in (HOST, HEARTBEAT_MAC):
            frame = frame_of(PING, epoch=2, sequence=9, source=other, destination=destination)
            assert guard.accept(frame) is None
        assert guard.refused == {Cause.NOT_LEADER: 2}
        assert guard.accept(frame_of(PING, epoch=3, source=other, destination=HOST)) is not None

    def test_a_leader_notices_another_one_of_its_epoch_and_not_its_own_frames(self) -> None:
        guard = Guard(KEY, epoch=2, leader=True, address=LEADER)
        guard.accept(frame_of(PING, epoch=2, source=LEADER, destination=HEARTBEAT_MAC))
        assert guard.twin is None
        guard.accept(frame_of(PING, epoch=2, source=HOST, destination=HEARTBEAT_MAC))
        assert guard.twin == HOST and guard.refused == {Cause.NOT_LEADER: 2}


class TestCounting:
    """Each refusal is counted once, by its cause."""

    @given(st.lists(st.one_of(messages.map(frame_of), st.binary(max_size=80)), max_size=20))
    @PROPERTY
    def test_every_frame_is_either_accepted_or_counted(self, frames: list[bytes]) -> None:
        guard = Guard(KEY)
        taken = [guard.accept(frame) for frame in frames]
        assert guard.accepted == sum(frame is not None for frame in taken)
        assert guard.accepted + guard.refused.total() == len(frames)

    def test_causes_are_counted_apart(self) -> None:
        guard = Guard(KEY)
        guard.accept(b"")
        guard.accept(frame_of(PING, key=OTHER_KEY))
        guard.accept(frame_of(PING, key=OTHER_KEY))
        guard.refuse(Cause.CLOCK)
        assert guard.refused == {Cause.SHORT: 1, Cause.TAG: 2, Cause.CLOCK: 1}
