"""An agent that ends puts its host back, whatever else fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents import run
from agents.config import AgentConfig
from protocol.keys import host_file


class FailedPart(Exception):
    """A part can't be closed."""


class FailedStart(Exception):
    """The agent can't be put together."""


@pytest.fixture
def host() -> SimpleNamespace:
    return SimpleNamespace(link=SimpleNamespace(address=bytes(6)))


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, host: SimpleNamespace) -> list[str]:
    """Which pieces of an agent were closed: its start fails once the agent and its host are there."""
    closed: list[str] = []

    def close_agent() -> None:
        closed.append("agent")
        raise FailedPart

    def no_addresses(*_: Any) -> None:  # noqa: ANN401 -- whatever it is given
        raise FailedStart

    host.close = lambda: closed.append("host")
    membership = SimpleNamespace(room_for_addresses=None, set_addresses=None)
    monkeypatch.setattr(host_file, "load", lambda _: SimpleNamespace(name="h1", at=lambda _: None))
    monkeypatch.setattr(run, "probed_gate", lambda gate: gate)
    monkeypatch.setattr(run, "Host", lambda *_, **__: host)
    monkeypatch.setattr(run, "Agent", lambda *_: SimpleNamespace(membership=membership, close=close_agent))
    monkeypatch.setattr(run, "Addresses", no_addresses)
    guardian = SimpleNamespace(dismiss=lambda: closed.append("guardian"))
    monkeypatch.setattr(run, "Guardian", lambda *_: guardian)
    return closed


def test_the_host_is_put_back_when_a_part_can_not_be_closed(ended: list[str]) -> None:
    with pytest.raises(FailedPart):
        run.run(AgentConfig("eth0", 10**9, Path("h1.host")))
    assert ended == ["agent", "host", "guardian"]


def test_the_guardian_stays_when_the_host_can_not_be_put_back(ended: list[str], host: SimpleNamespace) -> None:
    def refused() -> None:
        raise OSError(errno.EBUSY, "busy")

    host.close = refused
    with pytest.raises(OSError, match="busy"):
        run.run(AgentConfig("eth0", 10**9, Path("h1.host")))
    assert ended == ["agent"]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [(errno.ENODEV, "name one that `ip link` shows"), (errno.EPERM, "run as root"), (errno.EACCES, "run as root")],
)
def test_a_refusal_at_the_start_is_one_line_with_the_remedy(
    ended: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: int, remedy: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(run, "Host", refused)
    assert run.run(AgentConfig("eth0", 10**9, Path("h1.host"))) == 1 and not ended
    assert capsys.readouterr().err == f"baton agent: interface eth0: {os.strerror(error)}; {remedy}\n"
