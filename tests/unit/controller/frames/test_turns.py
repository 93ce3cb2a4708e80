"""One turn of the loop is bounded, whatever comes; what is left waits for the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, frame, mac
from bench.fuzz.seeds import SEEDS
from controller.coordinator.intake import MOST_FRAMES
from controller.members.registry import FIRST_NODE
from protocol.bodies.flows.coflow_report import CoflowReport
from protocol.bodies.flows.losses import Losses
from protocol.bodies.groups import GroupsRequest
from protocol.bodies.host_control import ClockReport
from protocol.bodies.host_link import HostLink
from protocol.bodies.host_state import HostState
from protocol.messages import (
    HEARTBEAT_MAC,
    Cause,
    Coflows,
    DirectoryRequest,
    Message,
    Paths,
    Pong,
    Report,
    SizeReport,
    Yield,
)

HOSTS = 4
PROVEN = (
    DirectoryRequest, Report, SizeReport, ClockReport, HostState, HostLink, Paths, Losses, GroupsRequest, CoflowReport,
)  # fmt: skip
AGAIN_AND_AGAIN = [message for message in SEEDS if isinstance(message, PROVEN)]


@pytest.fixture
def leader() -> Iterator[Leader]:
    made = Leader(compiled=True, hosts=HOSTS, policy="free")
    yield made
    made.link.close()


def test_frames_that_python_handles_are_taken_a_few_at_a_time(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of them must not stop plans, heartbeats and the lease."""
    monkeypatch.setattr("controller.coordinator.intake.BATCHES_NS", 10**12)
    handled = []
    coordinator = leader.coordinator
    assert coordinator.exchange is not None
    monkeypatch.setattr(coordinator.reception, "receive", lambda raw, now_ns, proven: handled.append(raw))
    for _ in range(3 * MOST_FRAMES):
        leader.link.deliver(bytes(60))
    assert coordinator.intake.frames() and len(handled) == MOST_FRAMES
    while coordinator.intake.frames():
        pass
    assert len(handled) == 3 * MOST_FRAMES


def test_no_batch_begins_when_a_turn_has_taken_its_time(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.coordinator.intake.BATCHES_NS", 0)
    coordinator = leader.coordinator
    assert coordinator.exchange is not None
    leader.hear([frame(Yield(FIRST_NODE, 1, 0, 0), 1, sequence=FIRST_SEQUENCE + 1)], 1)  # the library knows it from here on
    before = coordinator.guard.accepted
    leader.link.deliver(bytes(60))
    leader.link.deliver(frame(Yield(FIRST_NODE, 2, 0, 0), 1, sequence=FIRST_SEQUENCE + 2))
    assert coordinator.intake.frames() and coordinator.guard.accepted == before
    assert not coordinator.intake.frames() and coordinator.guard.accepted == before + 1


@pytest.mark.parametrize("message", AGAIN_AND_AGAIN, ids=lambda message: type(message).__name__)
def test_what_hosts_say_again_and_again_is_proven_by_the_library_once(
    leader: Leader, monkeypatch: pytest.MonkeyPatch, message: Message
) -> None:
    """So that Python need not verify it."""
    coordinator = leader.coordinator
    leader.hear([frame(Yield(FIRST_NODE, 1, 0, 0), 1, sequence=FIRST_SEQUENCE + 1)], 1)  # the library knows it from here on
    proven: list[bytes] = []
    accept = coordinator.guard.accept_proven
    monkeypatch.setattr(
        coordinator.guard, "accept_proven", lambda raw, speaker: (proven.append(raw), accept(raw, speaker))[1]
    )
    report = frame(message, 1, sequence=FIRST_SEQUENCE + 2)
    forged = report[:-1] + bytes([report[-1] ^ 1])
    before = coordinator.guard.accepted, dict(coordinator.guard.refused)
    leader.hear([forged], 2)
    assert not proven and coordinator.guard.refused[Cause.TAG] == before[1].get(Cause.TAG, 0) + 1
    leader.hear([report], 2)
    assert proven == [report] and coordinator.guard.accepted == before[0] + 1
    leader.hear([report], 2)
    assert len(proven) == 1 and coordinator.guard.refused[Cause.REPLAY] == before[1].get(Cause.REPLAY, 0) + 1


def test_what_goes_to_all_is_made_and_sent_without_the_lock(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signature takes as long as a turn of the loop of slots, which waits for the lock meanwhile."""
    coordinator, held = leader.coordinator, list[bytes]()

    class Held:
        def __enter__(self) -> None:
            held.append(b"")

        def __exit__(self, *_: object) -> None:
            held.append(leader.link.delivered()[-1][:6])

    monkeypatch.setattr(coordinator.outgoing, "_in_order", Held())
    coordinator.outgoing.send(Coflows(1, 0, 1, ()), HEARTBEAT_MAC)
    coordinator._heartbeat(1)
    assert not held and {raw[:6] for raw in leader.link.delivered()} == {HEARTBEAT_MAC}
    coordinator.outgoing.send(Pong(1, 2, 3), mac(1))
    assert held == [b"", mac(1)]
