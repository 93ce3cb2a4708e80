"""The coordinator's loop, for one turn, over sockets that are readable: what is taken in which order."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from controller.config.settings import CoordinatorSettings
from controller.coordinator.candidate import CachedLines, Candidate
from controller.coordinator.coordinator import Coordinator
from controller.election.leadership import Leadership
from controller.election.rules import Election
from controller.processes.jsonlines import JsonLines
from protocol.key import Key
from protocol.link import ControlSocket
from protocol.messages import Cause


class Readable:
    """What is readable now: a link with one frame of each kind, the store bridge's lines, or the elector's lines."""

    address, trouble = bytes(6), ""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self._ends = socket.socketpair()
        self._ends[1].send(b"!")
        self._frames = [b"YIELD"]

    def fileno(self) -> int:
        return self._ends[0].fileno()

    def deferred_frames(self, most: int) -> list[tuple[bytes, int]]:
        return [(b"ACK", 1_000)]

    def receive(self) -> bytes | None:
        return self._frames.pop() if self._frames else None

    def send(self, frame: bytes) -> bool:
        return True

    def fault(self) -> str:
        return self.trouble

    def read(self) -> list[dict[str, Any]]:
        self._log.append("bridge")
        return []

    def write(self, value: object) -> bool:
        return True

    def close(self) -> None:
        for end in self._ends:
            end.close()


class Term(Leadership):
    """Leads for as many turns of the loop as it is asked for."""

    def __init__(self, lines: JsonLines, log: list[str], turns: int) -> None:
        super().__init__(Election(lease_ns=10**9, heard_ns=10**9, standby=False, now_ns=0), lines)
        self._log, self._turns = log, turns

    @property
    def epoch(self) -> int:
        return 7

    def due_ns(self) -> int:
        return 1 << 62

    def may_speak(self) -> bool:
        return False

    def serve(self, readable: bool) -> bool:
        self._log.append("leadership")
        self._turns -= 1
        return self._turns >= 0


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def coordinator(log: list[str]) -> Iterator[Coordinator]:
    ends = [Readable(log) for _ in range(3)]
    link, bridge, lines = ends
    settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file=Path("/nowhere"), store="")
    made = Coordinator(
        settings, Key(bytes(32)), cast(ControlSocket, link), cast(JsonLines, bridge),
        Term(cast(JsonLines, lines), log, 0), cast(Any, None),
    )  # fmt: skip
    made.reception.receive = lambda raw, now_ns, proven=False: log.append(raw.decode())  # type: ignore[method-assign]
    yield made
    for end in ends:
        end.close()


def test_an_acknowledgement_that_waited_comes_before_the_yield_that_woke_us(coordinator: Coordinator, log: list[str]) -> None:
    coordinator.run()
    assert log == ["ACK", "YIELD", "bridge", "leadership"]


def test_who_leads_no_more_plans_nothing_more(coordinator: Coordinator, log: list[str]) -> None:
    coordinator.granting.due_ns = 1
    coordinator.granting.plan = lambda now_ns: log.append("plan")  # type: ignore[method-assign]
    coordinator.run()
    assert "plan" not in log


def test_a_leader_plans_when_it_is_due_after_all_that_came(coordinator: Coordinator, log: list[str]) -> None:
    coordinator.granting.due_ns = 1
    cast(Term, coordinator.leadership)._turns = 1
    coordinator.granting.plan = lambda now_ns: (log.append("plan"), coordinator.stop())  # type: ignore[method-assign,assign]
    coordinator.run()
    assert log == ["ACK", "YIELD", "bridge", "leadership", "plan"]


def test_no_word_of_the_tuner_ends_a_leader(coordinator: Coordinator, log: list[str]) -> None:
    def fails() -> bool:
        log.append("tuner")
        raise ValueError("no 64 bits hold it")

    cast(Term, coordinator.leadership)._turns = 2
    tuner = Readable(log)
    coordinator.distribution.tuner = cast(JsonLines, tuner)
    coordinator.distribution.from_tuner = fails  # type: ignore[method-assign]
    coordinator.run()
    tuner.close()
    assert log.count("tuner") == 2 and coordinator.guard.refused[Cause.FAILED] == 2


def test_a_leader_whose_interface_is_gone_ends_its_term(coordinator: Coordinator, log: list[str]) -> None:
    """Else it would keep the lease, deaf and dumb, and no other controller would lead."""
    turns = 50
    cast(Term, coordinator.leadership)._turns = turns
    coordinator.timers.every(0, 1, lambda _: None)  # so that no turn waits
    coordinator.link.trouble = "is gone"  # type: ignore[attr-defined]
    coordinator.run()
    assert log.count("leadership") == 1


def test_a_candidate_whose_interface_is_gone_does_not_stand_by(coordinator: Coordinator) -> None:
    coordinator.link.trouble = "is gone"  # type: ignore[attr-defined]
    candidate = Candidate(
        coordinator.settings, Key(bytes(32)), coordinator.link, cast(CachedLines, coordinator.bridge), coordinator.leadership,
        beat=lambda _: candidate.stop(),
    )  # fmt: skip
    told: list[object] = []
    candidate._keys.refresh = list  # type: ignore[method-assign]
    candidate.bridge.write = told.append  # type: ignore[method-assign,assign]
    assert not candidate.stand_by() and not told


def test_what_is_read_counts_up_to_the_last_turn_that_left_nothing(coordinator: Coordinator) -> None:
    cast(Term, coordinator.leadership)._turns = 3
    left = [False, True, True, True]
    begun: list[int] = []

    def take_deferred(now_ns: int) -> bool:
        begun.append(now_ns)
        return left[len(begun) - 1]

    seen: list[int] = []
    coordinator.intake.deferred = take_deferred  # type: ignore[method-assign]
    coordinator._serve_timers = lambda: seen.append(coordinator.intake.read_until(begun[-1] + 5))  # type: ignore[method-assign]
    coordinator.granting.due_ns = 1
    coordinator.run()
    assert seen == [begun[0] + 5, begun[0], begun[0]]
