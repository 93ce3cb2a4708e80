"""Whom a guardian kills, and whom not: its shell, with looks of a second."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.queues.guardian import BEAT, RIGHTS, WAIT

Start = Callable[..., "Watched"]


class Watched:
    """A process that stands for the agent, and its guardian."""

    def __init__(self, stderr: int) -> None:
        self.agent = subprocess.Popen(("sleep", "60"))
        waiting = ("bash", "-c", re.sub(r"-t \d+", "-t 1", WAIT), "baton-guardian", str(self.agent.pid), "true")
        self.guardian = subprocess.Popen(waiting, stdin=subprocess.PIPE, stderr=stderr)
        self.beat()

    def beat(self, seconds: float = 0) -> None:
        assert self.guardian.stdin is not None
        until = time.monotonic() + seconds
        os.write(self.guardian.stdin.fileno(), BEAT)
        while time.monotonic() < until:
            time.sleep(0.2)
            os.write(self.guardian.stdin.fileno(), BEAT)

    def end_pipe(self) -> None:
        """As the end of an agent does."""
        assert self.guardian.stdin is not None
        self.guardian.stdin.close()

    def close(self) -> None:
        for process in (self.agent, self.guardian):
            process.kill()
            process.wait()


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Watched] = []

    def one(stderr: int = subprocess.DEVNULL) -> Watched:
        made.append(Watched(stderr))
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_beats_that_lay_unread_while_the_guardian_was_not_scheduled_count(start: Start) -> None:
    watched = start()
    time.sleep(0.2)  # it has read the first
    watched.guardian.send_signal(signal.SIGSTOP)
    watched.beat(1.5)
    watched.guardian.send_signal(signal.SIGCONT)
    watched.beat(1)
    assert watched.agent.poll() is None


def test_an_agent_that_was_frozen_with_its_guardian_lives_on(start: Start) -> None:
    watched = start()
    time.sleep(0.2)  # it has read the beat
    watched.guardian.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    watched.guardian.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    watched.beat(1)
    assert watched.agent.poll() is None


def test_an_agent_that_stands_still_is_killed_though_nobody_reads_the_log(start: Start) -> None:
    gone, end = os.pipe()
    watched = start(end)
    for descriptor in (end, gone):
        os.close(descriptor)
    assert watched.agent.wait(6) == -signal.SIGKILL


def test_an_agent_that_stands_still_is_killed_though_the_log_is_full(start: Start) -> None:
    reader, end = os.pipe()
    flags = fcntl.fcntl(end, fcntl.F_GETFL)
    os.set_blocking(end, False)
    with pytest.raises(BlockingIOError):
        while os.write(end, bytes(4096)):
            pass
    fcntl.fcntl(end, fcntl.F_SETFL, flags)
    watched = start(end)
    os.close(end)
    assert watched.agent.wait(6) == -signal.SIGKILL
    watched.end_pipe()
    assert watched.guardian.wait(6) == 0
    os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a directory to another user")
def test_the_guardian_can_read_a_baton_in_the_home_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "module").write_text("")
    os.chown(tmp_path, 12345, 12345)
    tmp_path.chmod(0o750)
    assert subprocess.run((*RIGHTS, "cat", str(tmp_path / "module")), check=False).returncode == 0
