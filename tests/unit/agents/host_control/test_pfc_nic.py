"""Reading `dcb pfc show`, and the errors when it prints nothing useful."""

from __future__ import annotations

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


def test_settings_that_somebody_changed_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pfc_nic, "CHECK_NS", 0)
    monkeypatch.setattr(pfc_nic, "read", lambda _: PfcSetting(8, (3,)))
    # It needs a real interface: tests/emulation/agents/host_control/test_pfc_nic.py
    monkeypatch.setattr(pfc_nic, "NicClasses", lambda *_: None)
    nic = NicPfc("eth1")
    assert nic.changes() == []
    monkeypatch.setattr(pfc_nic, "read", lambda _: PfcSetting(8, (3, 4)))
    assert nic.changes() == ["eth1: PFC is on for priorities [3, 4], no longer [3]"]
    assert nic.changes() == []
