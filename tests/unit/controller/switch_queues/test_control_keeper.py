"""What the keeper of control frames tells the OpenFlow application."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from controller.switch_queues import control_keeper
from controller.switch_queues.control_keeper import ControlKeeper, Stranger, keep, serve

GONE = 1 << 30


def test_a_station_behind_a_port_that_is_gone_by_now_hides_no_other() -> None:
    lo = socket.if_nametoindex("lo")
    heard = [(GONE, bytes(6)), (lo, bytes(range(6)))]
    bypasses: Any = {"1": SimpleNamespace(strangers=lambda: heard, close=lambda: None)}
    keeper = ControlKeeper()
    keeper._bypasses = bypasses
    assert keeper.strangers() == [Stranger("1", "lo", "00:01:02:03:04:05")]
    keeper.close()


class Quiet(ControlKeeper):
    """One that looks at no interface, and says which lines it took."""

    def __init__(self, *_: object) -> None:
        self.ended = False

    def check(self) -> None:
        for switch in self._wanted.switches.values():
            control_keeper._local(switch, {})

    def strangers(self) -> list[Stranger]:
        return []

    def close(self) -> None:
        self.ended = True


def test_a_line_that_does_not_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_keeper, "MOST_LINE", 1000)
    ours, theirs = socket.socketpair()
    keeper = Quiet()
    theirs.sendall(b"x" * 2000)
    theirs.shutdown(socket.SHUT_WR)
    with ours, theirs, pytest.raises(ValueError, match="without the end of a line"):
        keep(keeper, ours)
    assert keeper.ended


def test_whatever_one_application_sends_the_next_one_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_keeper, "ControlKeeper", Quiet)
    served: list[str] = []
    monkeypatch.setattr(control_keeper.log, "warning", lambda text, *told: served.append(text % told))
    path = tmp_path / "control.sock"

    def run() -> None:
        try:
            serve(path, os.geteuid(), None)
        except Exception as error:
            served.append(f"ended: {error!r}")

    Thread(target=run, daemon=True).start()
    for number in (1, 2):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5)
        while client.connect_ex(str(path)):
            pass
        with client:
            fields = {"ports": number, "flooded": [], "paths": [], "coordinators": []}
            client.sendall(json.dumps({"1": fields}).encode() + b"\n")
            assert client.recv(1) == b""
        assert len(served) == number and "ended" not in served[-1]
