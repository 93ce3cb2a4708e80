"""Which way to have MCP a process takes, and what it says if it is told a wrong one."""

from __future__ import annotations

import pytest

from agents.priorities import congestion_control
from agents.priorities.congestion_control import FORCED, Way, way
from ebpf.libbpf import BpfError


@pytest.mark.parametrize(("has", "expected"), [(True, Way.STRUCT_OPS), (False, Way.SOCK_OPS)])
def test_a_kernel_without_struct_ops_has_mcp_by_callbacks(monkeypatch: pytest.MonkeyPatch, has: bool, expected: Way) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    monkeypatch.setattr(congestion_control, "has_struct_ops", lambda: has)
    assert way() is expected


@pytest.mark.parametrize("forced", list(Way))
def test_the_environment_may_choose_the_other(monkeypatch: pytest.MonkeyPatch, forced: Way) -> None:
    monkeypatch.setenv(FORCED, forced.value)
    assert way() is forced


def test_a_way_that_there_is_not_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "magic")
    with pytest.raises(BpfError, match="BATON_MCP is 'magic'; write struct_ops or sock_ops"):
        way()


def test_a_kernel_with_neither_says_what_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORCED, raising=False)
    monkeypatch.setattr(congestion_control, "has_struct_ops", lambda: False)
    monkeypatch.setattr(congestion_control, "has_congestion_control", lambda name: False)
    with pytest.raises(BpfError, match="modprobe tcp_dctcp"):
        congestion_control.CongestionControl()
