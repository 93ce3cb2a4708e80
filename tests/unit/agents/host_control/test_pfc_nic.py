"""Reading `dcb pfc show`, and the errors when it prints nothing useful."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.host_control import pfc_nic
from agents.host_control.pfc_nic import NicPfc, NoPfc, PfcSetting, parse

SHOWN = (
    '[{"ifname":"eth1","pfc_cap":8,"macsec_bypass":false,"delay":32767,'
    '"prio_pfc":["off","off","off","on","off","on","off","off"]}]'
)


def test_enabled_priorities_are_read() -> None:
    assert parse(SHOWN, "eth1") == PfcSetting(8, (3, 5))
    assert parse('{"pfc_cap":4,"prio_pfc":{"0":true,"1":false}}', "eth1") == PfcSetting(4, (0,))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pfc_cap":8}', '{"pfc_cap":"x","prio_pfc":[]}', "3"])
def test_what_is_not_understood_is_an_error_with_a_remedy(text: str) -> None:
    with pytest.raises(NoPfc, match=r"eth1.*use --pfc software"):
        parse(text, "eth1")


def test_an_interface_without_an_enabled_priority_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pfc_nic, "read", lambda _: PfcSetting(8, ()))
    with pytest.raises(NoPfc, match="dcb pfc set dev eth1 prio-pfc 3:on"):
        NicPfc("eth1")


class Dcb:
    """A command `dcb` of which the test says what it does."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = directory / "dcb"
        monkeypatch.setenv("PATH", str(directory), prepend=":")
        monkeypatch.setattr(pfc_nic, "CHECK_NS", 0)
        # It needs a real interface: tests/emulation/agents/host_control/test_pfc_nic.py
        monkeypatch.setattr(pfc_nic, "NicClasses", lambda *_: SimpleNamespace(close=lambda: None))

    def does(self, script: str) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\n{script}\n")
        fresh.chmod(0o755)
        fresh.replace(self._path)

    def prints(self, text: str) -> None:
        self.does(f"echo '{text}'")


@pytest.fixture
def dcb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dcb:
    made = Dcb(tmp_path, monkeypatch)
    made.prints(SHOWN)
    return made


def told(nic: NicPfc, *, looks: int = 3) -> list[str]:
    """What it tells while `dcb` is run so often."""
    found: list[str] = []
    until = time.monotonic() + 30
    while looks and time.monotonic() < until:
        found += nic.changes()
        looks -= nic._asked is None
        time.sleep(0.005)
    return found


def test_settings_that_somebody_changed_are_told_once(dcb: Dcb) -> None:
    nic = NicPfc("eth1")
    assert told(nic) == []
    dcb.prints(SHOWN.replace('"off","on","off","off"]', '"off","off","off","off"]'))
    assert told(nic) == ["eth1: PFC is on for priorities [3], no longer [3, 5]"]


def test_nobody_waits_for_an_interface_that_does_not_answer_and_it_is_told_once(
    dcb: Dcb, monkeypatch: pytest.MonkeyPatch
) -> None:
    nic = NicPfc("eth1")
    dcb.does("exec sleep 60")
    begun = time.monotonic()
    assert nic.changes() == nic.changes() == []
    assert time.monotonic() - begun < 1
    monkeypatch.setattr(pfc_nic, "ANSWER_S", 0.05)
    assert told(nic, looks=1) == ["--pfc nic: eth1 did not answer `dcb pfc show` in 0.05 s; use --pfc software"]
    dcb.prints(SHOWN)
    assert told(nic) == []
    dcb.does("exec sleep 60")
    nic.changes()
    asked = nic._asked
    nic.close()
    assert asked is not None and asked.wait(10) == -signal.SIGKILL


def test_an_interface_that_does_no_pfc_any_more_is_told(dcb: Dcb) -> None:
    nic = NicPfc("eth1")
    dcb.does("echo 'Operation not supported' >&2; exit 1")
    assert told(nic, looks=1) == ["--pfc nic: eth1 does no PFC (Operation not supported); use --pfc software"]
