"""The file that an agent keeps of an interface: one agent at a time has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.kernel.snapshot import InterfaceInUse, StateFile


def test_a_second_agent_is_refused_while_the_first_one_has_the_interface(tmp_path: Path) -> None:
    first = StateFile(tmp_path / "run", "eth0")
    with pytest.raises(InterfaceInUse, match=rf"eth0: an agent runs there already \(pid {os.getpid()}\); stop it first"):
        StateFile(tmp_path / "run", "eth0")
    other = StateFile(tmp_path / "run", "eth1")
    first.remove()
    again = StateFile(tmp_path / "run", "eth0")
    again.release()
    other.remove()
    assert not list((tmp_path / "run").iterdir())


def test_an_agent_that_ended_badly_keeps_nobody_out(tmp_path: Path) -> None:
    if not (child := os.fork()):
        StateFile(tmp_path, "eth0")
        os._exit(0)  # as a signal that nobody catches would end it
    os.waitpid(child, 0)
    assert list(tmp_path.iterdir())
    StateFile(tmp_path, "eth0").remove()
