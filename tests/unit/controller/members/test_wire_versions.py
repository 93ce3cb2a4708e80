"""A leader speaks to each member in the version that both agreed on, and to all in each version that is spoken."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given

from bench.fuzz.receivers import EPOCH, LEADER_MAC, DiscardingBridge, FakeControlSocket, FixedLeadership
from cli.machine.doctor_hosts import findings
from cli.operate import status_view
from controller.config.settings import CoordinatorSettings
from controller.coordinator.candidate import Candidate
from protocol.bodies.versions import NEWEST, SPOKEN, Versions
from protocol.messages import (
    HEARTBEAT_MAC,
    UNREGISTERED,
    Cause,
    Directory,
    DirectoryChange,
    DirectoryRequest,
    Error,
    ErrorCode,
    Frame,
    GateKind,
    Heartbeat,
    Leave,
    Override,
    Ping,
    Pong,
    Register,
    Report,
    Welcome,
    decode,
    encode,
)
from tests.unit.controller.members.test_bounds import KEY, MS, Fabric, address
from tests.unit.protocol.protocol_strategies import PROPERTY, versions

OLD = SPOKEN.lowest


class Leader(Fabric):
    """A leader whose frames are looked at with their versions."""

    def join(self, host: int, version: int = NEWEST, spoken: Versions | None = None) -> int:
        register = Register(f"h{host}", host, 10**8, (), GateKind.TBF, "1", spoken or Versions(OLD, version))
        self.hear(host, register, UNREGISTERED, version=version)
        welcome = next(frame.message for frame in self.frames(host) if isinstance(frame.message, Welcome))
        return welcome.node

    def frames(self, host: int | None = None) -> list[Frame]:
        """What was sent to a host, or (None) to all, since the last `hear` or `to_all`."""
        to = HEARTBEAT_MAC if host is None else address(host)
        return [decode(raw, KEY) for raw in self.link.sent if raw[:6] == to]

    def heartbeats(self) -> list[int]:
        """The versions of the next heartbeat's copies."""
        self.link.sent = []
        self.leader._heartbeat(0)
        frames = self.frames()
        assert all(isinstance(frame.message, Heartbeat) for frame in frames)
        assert [frame.sequence for frame in frames] == sorted({frame.sequence for frame in frames}), "each has its number"
        return [frame.version for frame in frames]

    def refused(self, cause: Cause) -> int:
        return self.leader.guard.refused[cause]


@pytest.mark.parametrize("version", [OLD, NEWEST])
def test_a_member_hears_its_version_and_no_other_from_the_welcome_on(version: int) -> None:
    leader = Leader()
    node = leader.join(1, version)
    (welcome,) = [frame for frame in leader.frames(1) if isinstance(frame.message, Welcome)]
    assert welcome.version == version and isinstance(welcome.message, Welcome) and welcome.message.version == version
    assert welcome.message.versions == (SPOKEN if version > 2 else (2, 2))
    leader.hear(1, DirectoryRequest(0), node, version=version)
    leader.hear(1, Ping(7), node, version=version)
    assert {frame.version for frame in leader.frames(1)} == {version}
    assert any(isinstance(frame.message, Pong) for frame in leader.frames(1))
    assert leader.leader.members.present()[0].wire == version


def test_what_goes_to_all_goes_once_in_each_version_that_a_member_speaks_and_in_the_newest() -> None:
    leader = Leader()
    assert leader.heartbeats() == [NEWEST, OLD], "at first every version: nobody knows who is there"
    assert leader.heartbeats() == [NEWEST]
    old = leader.join(1, OLD)
    leader.join(2)
    assert leader.heartbeats() == [NEWEST, OLD]
    leader.link.sent = []
    leader.leader.directory._tell_changes(0)
    for _ in range(3):
        leader.leader.directory._tell_changes(0)
    told = [frame.version for frame in leader.frames() if isinstance(frame.message, DirectoryChange)]
    assert told[:2] == [NEWEST, OLD]
    leader.hear(1, Leave(""), old, version=OLD)
    assert leader.heartbeats() == [NEWEST]
    assert leader.leader.members.wires.total() == 1


def test_hosts_and_standbys_of_an_older_version_hear_a_leader_before_they_take_it_for_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader, now_ns = Leader(), 10**12
    monkeypatch.setattr("controller.coordinator.coordinator.time.monotonic_ns", lambda: now_ns)
    heard_ns = []
    for _ in range(100):
        heard_ns += [now_ns] if OLD in leader.heartbeats() else []
        now_ns += leader.leader.settings.heartbeat_ns
    gaps = [after - before for before, after in pairwise(heard_ns)]
    assert max(gaps) < leader.leader.settings.fail_open_ns
    assert len(heard_ns) < 50, "and not with every heartbeat: agents of the newest version get them too"


def test_a_member_is_not_heard_in_another_version_than_agreed() -> None:
    leader = Leader()
    node = leader.join(1)
    assert not leader.hear(1, DirectoryRequest(0), node, version=OLD)
    assert not leader.hear(1, Leave("forged"), node, version=OLD)
    assert leader.refused(Cause.VERSION) == 2 and leader.leader.members.get(node) is not None
    assert any(isinstance(answer, Directory) for answer in leader.hear(1, DirectoryRequest(0), node))


def test_a_register_in_an_older_version_takes_no_member_back_before_it_left_or_fell_silent() -> None:
    leader = Leader()
    node = leader.join(1)
    old = Register("h1", 9, 10**8, (), GateKind.TBF, "1")
    assert not leader.hear(1, old, UNREGISTERED, version=OLD)
    assert leader.refused(Cause.VERSION) == 1 and leader.leader.members.present()[0].wire == NEWEST
    leader.hear(1, Leave("an older version is installed"), node)
    assert any(isinstance(answer, Welcome) for answer in leader.hear(1, old, UNREGISTERED, version=OLD))
    assert leader.leader.members.present()[0].wire == OLD
    leader.join(1)
    assert leader.leader.members.present()[0].wire == NEWEST and leader.leader.members.wires == {OLD: 0, NEWEST: 1}
    silent_ns = leader.now_ns + leader.leader.settings.silence_ns + MS
    leader.leader.membership._forget_silent(silent_ns)
    assert any(isinstance(answer, Welcome) for answer in leader.hear(1, old, UNREGISTERED, version=OLD))


@pytest.mark.parametrize("version", [OLD, NEWEST])
def test_who_is_no_member_is_answered_in_its_own_version(version: int) -> None:
    leader = Leader()
    (error,) = leader.hear(1, Ping(1), 16, version=version)
    assert isinstance(error, Error) and error.code is ErrorCode.UNKNOWN_SENDER
    (error,) = leader.hear(1, Ping(1), 16, (1 << 64) - 1, version)
    assert isinstance(error, Error) and error.code is ErrorCode.SEQUENCE
    assert {frame.version for frame in leader.frames(1)} == {version}


def test_a_standby_hears_a_leader_of_either_version_and_logs_one_that_it_does_not_understand(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[int] = []
    waiting: list[bytes] = []

    class Link(FakeControlSocket):
        def receive(self) -> bytes | None:
            return waiting.pop(0) if waiting else None

    class Term(FixedLeadership):
        def heard(self, epoch: int, now_ns: int) -> None:
            heard.append(epoch)

    settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=Path("/nowhere"), store="")
    bridge: Any = DiscardingBridge()
    candidate = Candidate(settings, KEY, cast(Any, Link(address(9))), bridge, Term())
    words = {"key": KEY, "destination": HEARTBEAT_MAC, "source": LEADER_MAC, "sender": 1, "epoch": EPOCH}
    for at, version in enumerate((NEWEST, OLD)):
        waiting.append(encode(Heartbeat(Override.COORDINATE, 1, 1), **words, sequence=at + 1, version=version))
    foreign = bytearray(waiting[0])
    foreign[16] = NEWEST + 1
    waiting += [bytes(foreign)] * 3
    with caplog.at_level(logging.INFO):
        candidate._listen(MS)
    assert heard == [EPOCH, EPOCH]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith("upgrade this controller")


def test_an_upgrade_shows_who_is_left_and_calls_no_copy_for_others_a_refusal() -> None:
    leader = Leader()
    old, new = leader.join(1, OLD), leader.join(2)
    refused = Report(10**8, 0, 1, (), ((Cause.VERSION, 40), (Cause.TAG, 3)), 1)
    leader.hear(1, refused, old, version=OLD)
    leader.hear(2, refused, new)
    members = {node: leader.leader.members.get(node).record(0) for node in (old, new)}  # type: ignore[union-attr]
    assert members[old]["refused"] == {Cause.TAG: 3} and members[new]["refused"] == {Cause.VERSION: 40, Cause.TAG: 3}
    odd = [problem for problem in findings(members, {}, {}) if problem.what == "version of the wire"]
    assert odd and all("upgrade" in problem.remedy for problem in odd)
    line = status_view._wire(leader.leader._document(0)["wire"])
    assert line == "1 members in version 2, 1 members in version 3; the leader speaks 2 to 3: finish the upgrade of the hosts"
    leader.hear(1, Leave(""), old, version=OLD)
    assert not status_view._wire(leader.leader._document(0)["wire"])


@given(versions)
@PROPERTY
def test_any_range_is_agreed_on_or_refused_in_words_and_nobody_else_is_harmed(theirs: Versions) -> None:
    leader = Leader()
    other = leader.join(2)
    answers = leader.hear(1, Register("h1", 5, 10**8, (), GateKind.TBF, "1", theirs), UNREGISTERED)
    if (agreed := SPOKEN.agreed(theirs)) is None:
        (error,) = answers
        assert isinstance(error, Error) and error.code is ErrorCode.REFUSED and str(theirs) in error.text
        assert "upgrade" in error.text and len(leader.leader.members.present()) == 1
    else:
        (welcome,) = [frame.message for frame in leader.frames(1) if isinstance(frame.message, Welcome)]
        assert isinstance(welcome, Welcome) and welcome.version == agreed
        assert {frame.version for frame in leader.frames(1)} == {agreed}
    assert any(isinstance(answer, Pong) for answer in leader.hear(2, Ping(1), other))


def test_frames_of_a_version_that_it_does_not_speak_are_counted_and_shown_with_what_to_upgrade() -> None:
    leader = Leader()
    words = {"key": KEY, "destination": LEADER_MAC, "source": address(9), "sender": 0, "epoch": EPOCH}
    frame = bytearray(encode(Register("h9", 1, 10**8, (), GateKind.TBF, "1"), **words, sequence=1))
    for version in (OLD - 1, NEWEST + 1):
        frame[16] = version
        leader.leader.reception.receive(bytes(frame), MS)
    document = leader.leader._document(MS)
    assert document["refused"] == {"version": 2}
    assert document["wire"] == {"lowest": OLD, "highest": NEWEST, "members": {}}
    behind, ahead = document["warnings"]
    assert address(9).hex(":") in behind and behind.endswith("upgrade the agent or controller there")
    assert address(9).hex(":") in ahead and ahead.endswith("upgrade this controller")
    leader.leader.versions._forget(10**12)
    assert not leader.leader._document(10**12)["warnings"]
