"""The leader's commands to pause the link partner: each is obeyed once, and none undoes a later one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents.host_control import pfc
from agents.host_control.pfc import PfcPart
from protocol.bodies.pfc import PauseResult, PfcPause, PfcReport

SECOND = 10**9


class FakeSocket:
    """A socket of which nothing comes."""

    address = bytes(6)

    def __init__(self, *_: object, **__: object) -> None:
        self.sent: list[bytes] = []

    def fileno(self) -> int:
        return -1

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)


class World:
    """A part, and what it reported."""

    def __init__(self) -> None:
        self.reports: list[PfcReport] = []
        nothing = SimpleNamespace(
            subscribe=lambda **_: None, map_classes=lambda *_: None, block=lambda *_: None, unblock=lambda *_: None
        )
        agent: Any = SimpleNamespace(member=True, rules=nothing, send=self.reports.append)
        self.part = PfcPart(agent, "eth0", 10**9, lambda: 0)

    def command(self, number: int, classes: int, duration_ns: int) -> frozenset[int]:
        self.part.handlers[PfcPause](PfcPause(number, classes, duration_ns), number)
        assert (self.reports[-1].command, self.reports[-1].answer) == (number, PauseResult.DONE)
        return self.part.originated.paused


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(pfc, "ControlSocket", FakeSocket)
    return World()


def test_a_pause_that_was_lost_and_comes_after_the_resume_does_not_pause(world: World) -> None:
    assert world.command(5, 0b1000, 0) == frozenset()
    assert world.command(4, 0b1000, SECOND) == frozenset()
    assert world.command(6, 0b1000, SECOND) == {3}


def test_it_is_obeyed_for_the_classes_that_no_later_command_named(world: World) -> None:
    assert world.command(5, 0b1000, 0) == frozenset()
    assert world.command(4, 0b1100, SECOND) == {2}


def test_another_leaders_commands_begin_anew(world: World) -> None:
    world.command(5, 0b1000, 0)
    world.part.new_leader(5)
    assert world.command(1, 0b1000, SECOND) == {3}
