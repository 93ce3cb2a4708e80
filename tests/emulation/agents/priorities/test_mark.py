"""`baton mark` run for real: the mark of the command's sockets, its exit status, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from agents.bpf.build import object_path
from agents.priorities.marked_run import NoCgroup, own_cgroup
from ebpf.build import BuildError
from tests.emulation.namespaces import run

SHOW = "import socket; print(*(socket.socket(f).getsockopt(1, socket.SO_MARK) for f in (socket.AF_INET, socket.AF_INET6)))"


@pytest.fixture
def mark() -> Callable[..., subprocess.CompletedProcess[str]]:
    try:
        own_cgroup()
        object_path("mark")
    except (NoCgroup, BuildError) as error:
        pytest.skip(f"no marks by cgroup here: {error}")
    command = (sys.executable, "-m", "cli.main", "mark")
    return lambda *words: subprocess.run((*command, *words), capture_output=True, text=True, timeout=10, check=False)


def left_behind() -> bool:
    return bool(list(own_cgroup().glob("baton-mark-*"))) or "set_mark" in run("bpftool", "prog", "show")


def test_sockets_of_an_unchanged_command_are_born_with_the_mark(mark: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = mark("--size", "5MB", "--deadline", "20ms", "--", sys.executable, "-c", SHOW)
    assert done.stdout.split() == [str(20 << 20 | 4883)] * 2
    assert not left_behind()


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_status_is_the_commands(
    mark: Callable[..., subprocess.CompletedProcess[str]], script: str, status: int
) -> None:
    assert mark("--size", "2MB", "sh", "-c", script).returncode == status
    assert not left_behind()


@pytest.mark.parametrize("wait_s", [0.0, 0.01, 0.05])
def test_nothing_is_left_where_it_is_ended_while_it_starts(
    mark: Callable[..., subprocess.CompletedProcess[str]], wait_s: float
) -> None:
    """SIGTERM comes as soon as there is a cgroup, or a little later."""
    words = (sys.executable, "-m", "cli.main", "mark", "--size", "2MB", "sleep", "20")
    with subprocess.Popen(words) as running:
        until_s = time.monotonic() + 10
        while not (own_cgroup() / f"baton-mark-{running.pid}").exists() and time.monotonic() < until_s:
            time.sleep(0.001)
        time.sleep(wait_s)
        running.terminate()
        assert running.wait(10) == 128 + signal.SIGTERM
    assert not left_behind()


def test_cgroups_that_the_command_made_go_too_and_what_runs_there_goes_on(
    mark: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """As container engines make them, and a `baton mark` within another that was killed."""
    script = (
        f"cd {own_cgroup()}/baton-mark-$PPID && mkdir -p a/b && sleep 30 >/dev/null 2>&1 & "
        f"sleep 0.3; echo $! >{own_cgroup()}/baton-mark-$PPID/a/b/cgroup.procs; echo $!; exit 3"
    )
    done = mark("--size", "2MB", "sh", "-c", script)
    sleeping = int(done.stdout)
    try:
        assert done.returncode == 3, done.stderr
        assert not left_behind()
        os.kill(sleeping, 0)
    finally:
        os.kill(sleeping, signal.SIGKILL)


def test_what_a_mark_cannot_hold_is_refused_with_the_limit(mark: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = mark("--deadline", "5s", "true")
    assert done.returncode == 2 and "at most 4094" in done.stderr


def test_a_threaded_cgroup_is_refused_in_one_line_with_the_remedy(
    mark: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    threaded = own_cgroup() / f"baton-test-{os.getpid()}"
    threaded.mkdir()
    own = threaded.parent / "cgroup.procs"
    try:
        (threaded / "cgroup.type").write_text("threaded")
        (threaded / "cgroup.threads").write_text("0")
        done = mark("--size", "2MB", "true")
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
        assert f"cgroup {threaded} is threaded: no process can be marked there; move this shell" in done.stderr
    finally:
        own.write_text("0")
        threaded.rmdir()
