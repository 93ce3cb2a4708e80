"""Where commands and agents find the cgroup to which they attach, what is said where there is none, and how it is removed."""

from __future__ import annotations

import errno
import os
import signal
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
    with pytest.raises(NoCgroup, match=r"^no cgroup version 2 is mounted; mount -t cgroup2 none "):
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


class Kernel:
    """Refuses the removal of a cgroup some times; each time another process has been forked there meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: int, error: int = errno.EBUSY) -> None:
        self.refusals, self.asked = refusals, 0
        self._error = error
        monkeypatch.setattr(Path, "rmdir", self._rmdir)
        monkeypatch.setattr(marked_run, "AGAIN_S", 0)

    def _rmdir(self) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            raise OSError(self._error, os.strerror(self._error))


def leave(outside: Path) -> str:
    """Which process was moved out of the cgroup last."""
    with marked_run._cgroup(outside) as inside:
        (inside / "cgroup.procs").write_text("17\n")
    return (outside / "cgroup.procs").read_text()


def test_a_cgroup_that_is_busy_for_a_moment_is_removed_a_little_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, 3)
    assert leave(tmp_path) == "17" and kernel.asked == 4


def test_one_that_stays_busy_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, 10**6)
    with pytest.raises(OSError, match="busy"):
        leave(tmp_path)
    assert kernel.asked == marked_run.TRIES


def test_another_refusal_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, 10**6, errno.EPERM)
    with pytest.raises(PermissionError):
        leave(tmp_path)
    assert kernel.asked == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_before_the_command_has_started_keeps_it_from_starting(tmp_path: Path, number: int) -> None:
    handler = signal.getsignal(number)
    with marked_run._signals() as signals:
        os.kill(os.getpid(), number)
        assert marked_run._run(("touch", str(tmp_path / "started")), tmp_path, signals) == 128 + number
    assert not (tmp_path / "started").exists()
    assert signal.getsignal(number) == handler


def test_a_command_that_the_kernel_keeps_out_of_the_cgroup_is_one_error_with_the_remedy(tmp_path: Path) -> None:
    with marked_run._signals() as signals, pytest.raises(NoCgroup, match="takes no process; move this shell to another cgroup"):
        marked_run._run(("true",), tmp_path / "none", signals)


def test_empty_cgroups_of_those_that_were_killed_are_removed_and_no_others(tmp_path: Path) -> None:
    gone = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(gone, 0)
    (tmp_path / f"baton-mark-{gone}" / "a").mkdir(parents=True)
    for kept in f"baton-mark-{os.getppid()}", "baton-mark-x", "other-1":
        (tmp_path / kept).mkdir()
    os.waitpid(used := os.spawnlp(os.P_NOWAIT, "true", "true"), 0)
    (tmp_path / f"baton-mark-{used}" / "a").mkdir(parents=True)
    (tmp_path / f"baton-mark-{used}" / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    marked_run._remove_left(tmp_path)
    assert (tmp_path / f"baton-mark-{used}" / "a").exists(), "what was run still does"
    (tmp_path / f"baton-mark-{used}").rename(tmp_path / "used")
    assert {at.name for at in tmp_path.iterdir()} == {f"baton-mark-{os.getppid()}", "baton-mark-x", "other-1", "used"}
