"""Where commands and agents find the cgroup to which they attach, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.priorities import marked_run
from agents.priorities.marked_run import NoCgroup, cgroup_root
from cli.hosts.marked import run_marked
from protocol.flowmark import FlowMark


def mounts(*directories: Path) -> str:
    lines = ["proc /proc proc rw 0 0", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0"]
    return "\n".join([*lines, *(f"cgroup2 {directory} cgroup2 rw 0 0" for directory in directories)]) + "\n"


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    directory = tmp_path / "unified"
    directory.mkdir()
    (directory / "cgroup.procs").touch()
    return directory


def test_the_root_is_one_that_can_be_reached(tmp_path: Path, mounted: Path) -> None:
    assert cgroup_root(mounts(mounted)) == mounted
    assert cgroup_root(mounts(tmp_path / "hidden", mounted)) == mounted


def test_without_one_the_error_says_what_to_mount() -> None:
    with pytest.raises(NoCgroup, match="no cgroup version 2 is mounted; mount -t cgroup2 none "):
        cgroup_root(mounts())


def test_one_that_another_mount_hides_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for hidden in (tmp_path / "hidden", tmp_path / "empty"):
        with pytest.raises(NoCgroup, match=rf"{hidden} cannot be reached .*ip netns exec.*; mount -t cgroup2 none DIRECTORY"):
            cgroup_root(mounts(hidden))


def test_a_command_that_is_there_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> int:
        raise FileNotFoundError(2, "No such file or directory", "/sys/fs/cgroup/unified/baton-mark-7")

    monkeypatch.setattr(marked_run, "run", fails)
    with pytest.raises(Exception, match="/sys/fs/cgroup/unified/baton-mark-7: No such file or directory"):
        run_marked(("true",), FlowMark(1_000, None))
    assert "there is no such command" not in capsys.readouterr().err
