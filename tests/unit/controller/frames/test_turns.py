"""One turn of the loop is bounded, whatever comes; what is left waits for the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.fuzz.leaders import FIRST_SEQUENCE, Leader, frame
from controller.coordinator.intake import MOST_FRAMES
from controller.members.registry import FIRST_NODE
from protocol.messages import Yield

HOSTS = 4


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
    monkeypatch.setattr(coordinator, "_receive", lambda raw, now_ns: handled.append(raw))
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
