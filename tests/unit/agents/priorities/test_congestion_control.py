"""Which way to have MCP a process takes, and what it says if it is told a wrong one."""

from __future__ import annotations

import errno

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


class Registration:
    """A program whose registration the kernel refuses."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def attach_struct_ops(self, name: str) -> None:
        raise BpfError(self.number, f"registering {name}: refused")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Registration:
    program = Registration(request.param)
    monkeypatch.setenv(FORCED, Way.STRUCT_OPS.value)
    monkeypatch.setattr(congestion_control, "available", tuple)
    monkeypatch.setattr(congestion_control, "object_path", lambda name: name)
    monkeypatch.setattr(congestion_control, "struct_ops_link", lambda _: None)
    monkeypatch.setattr(congestion_control, "BpfObject", lambda *_: program)
    return program


@pytest.mark.parametrize("refused", [errno.EEXIST], indirect=True)
def test_what_another_agent_registers_at_the_same_moment_is_there_for_both(refused: Registration) -> None:
    congestion_control.CongestionControl(mcp=False).close()
    assert refused.closed


@pytest.mark.parametrize("refused", [errno.EEXIST], indirect=True)
def test_what_nobody_registers_any_more_is_gone(refused: Registration, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = congestion_control.CongestionControl(mcp=False)
    monkeypatch.setattr(congestion_control, "available", lambda: frozenset({"cubic", "baton_dctcp"}))
    assert shared.gone() == []
    monkeypatch.setattr(congestion_control, "available", lambda: frozenset({"cubic"}))
    assert shared.gone() == ["baton_dctcp"]


@pytest.mark.parametrize("refused", [errno.EPERM], indirect=True)
def test_any_other_refusal_is_told(refused: Registration) -> None:
    with pytest.raises(BpfError, match="registering baton_dctcp"):
        congestion_control.CongestionControl(mcp=False)
    assert refused.closed
