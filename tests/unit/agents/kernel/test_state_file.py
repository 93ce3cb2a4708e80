"""The file that an agent keeps of an interface: one agent at a time has it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from agents.kernel import snapshot
from agents.kernel.snapshot import InterfaceInUse, Snapshot, StateFile, identity

FOUND = Snapshot("lo", "fq", 0x10000, "", clsact=False, gso_segments=7)


def test_a_second_agent_is_refused_while_the_first_one_has_the_interface(tmp_path: Path) -> None:
    first = StateFile(tmp_path / "run", "eth0", 7)
    with pytest.raises(InterfaceInUse, match=rf"eth0: an agent runs there already \(pid {os.getpid()}\); stop it first"):
        StateFile(tmp_path / "run", "eth0", 7)
    other = StateFile(tmp_path / "run", "eth1", 8)
    first.remove()
    again = StateFile(tmp_path / "run", "eth0", 7)
    again.release()
    other.remove()
    assert not list((tmp_path / "run").iterdir())


def test_an_agent_that_ended_badly_keeps_nobody_out(tmp_path: Path) -> None:
    if not (child := os.fork()):
        StateFile(tmp_path, "eth0", 7)
        os._exit(0)  # as a signal that nobody catches would end it
    os.waitpid(child, 0)
    assert list(tmp_path.iterdir())
    StateFile(tmp_path, "eth0", 7).remove()


def test_what_an_agent_left_of_this_interface_is_found(tmp_path: Path) -> None:
    state = StateFile(tmp_path, "lo", 1)
    state.write(FOUND)
    assert state.read() == FOUND
    older = json.loads(state.path.read_text())
    del older["of"], older["size_table"]
    state.path.write_text(json.dumps(older))
    assert state.read() == FOUND, "an agent of the version before left it"
    state.remove()


def test_an_interface_that_was_renamed_keeps_its_file_and_keeps_no_other_of_its_old_name_out(tmp_path: Path) -> None:
    first = StateFile(tmp_path, "eth0", 7)
    other = StateFile(tmp_path, "eth0", 9)
    with pytest.raises(InterfaceInUse, match="lan0: an agent runs there already"):
        StateFile(tmp_path, "lan0", 7)
    first.remove()
    other.remove()


def test_what_an_older_agent_left_by_the_interfaces_name_is_found_once(tmp_path: Path) -> None:
    state = StateFile(tmp_path, "lo", 1)
    state.write(FOUND)
    state.path.rename(older := tmp_path / f"{state.path.name.partition('.')[0]}-lo.json")
    state.release()
    older.with_suffix(".lock").touch()
    state = StateFile(tmp_path, "lo", 1)
    assert state.read() == FOUND
    state.clear()
    assert state.read() is None
    state.remove()
    assert not list(tmp_path.iterdir())


def test_an_older_agent_that_lives_keeps_a_second_one_out(tmp_path: Path) -> None:
    state = StateFile(tmp_path, "lo", 1)
    name = state.path.name.partition(".")[0]
    state.remove()
    with (tmp_path / f"{name}-lo.lock").open("w") as older:
        fcntl.flock(older, fcntl.LOCK_EX)
        with pytest.raises(InterfaceInUse):
            StateFile(tmp_path, "lo", 1)
    StateFile(tmp_path, "lo", 1).remove()
    assert not list(tmp_path.iterdir())


def test_what_was_left_of_another_interface_is_not_taken_for_this_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a network namespace, by which the file is named, is given again after a reboot, and to a new namespace."""
    state = StateFile(tmp_path, "lo", 1)
    with monkeypatch.context() as before:
        before.setattr(snapshot, "identity", lambda _: "another boot")
        state.write(FOUND)
    assert state.read() is None
    state.remove()


def test_a_record_that_cannot_be_removed_is_one_line_and_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateFile(tmp_path, "lo", 1)
    state.write(FOUND)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not here")

    with monkeypatch.context() as without_rights:
        without_rights.setattr(Path, "unlink", refused)
        state.remove()
    assert len(caplog.messages) == 1 and caplog.messages[0].endswith("its record stays: not here; remove it")
    StateFile(tmp_path, "lo", 1).remove()


def test_an_interface_is_known_by_the_boot_its_namespace_and_its_number() -> None:
    boot, cookie, index = identity("lo").split()
    assert len(boot) == 36 and int(cookie, 16) and index == "1"
    assert identity("none").split() == [boot, cookie, "0"]
