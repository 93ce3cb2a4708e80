"""An agent that ends puts its host back, whatever else fails."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents import run
from agents.config import AgentConfig
from agents.host_control.week_schedule import WeekCounters
from agents.permission.counters import Counters
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


class TestStatistics:
    """The file of `--statistics`, which root writes at the end."""

    @staticmethod
    def write(path: Path) -> None:
        run.write_statistics(path, Counters(), WeekCounters())

    def test_it_is_replaced_and_no_other_file_is_touched(self, tmp_path: Path) -> None:
        """host.new beside host.json: the host's next key."""
        (tmp_path / "host.json").write_text("old")
        (tmp_path / "host.new").write_text("the next key")
        self.write(tmp_path / "host.json")
        assert "weekly" in json.loads((tmp_path / "host.json").read_text())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["host.json", "host.new"]
        assert (tmp_path / "host.new").read_text() == "the next key"

    def test_a_pipe_or_a_device_stays_what_it_is(self, tmp_path: Path) -> None:
        """`--statistics /dev/null` as root made a file of the machine's device."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.write(pipe)
            assert pipe.is_fifo() and "weekly" in json.loads(os.read(reading, 1 << 16))
        finally:
            os.close(reading)

    def test_where_it_cannot_be_put_nothing_is_left(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_: Path, __: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            self.write(tmp_path / "counters.json")
        assert not list(tmp_path.iterdir())
