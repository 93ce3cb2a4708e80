"""A child that can't be started just now keeps nobody from going on, and is tried again."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.processes.identity import identify
from controller.processes.services import Service, ServiceFailed, Services

COMMAND = ("/bin/sleep", "60")


@pytest.fixture
def services() -> Iterator[Services]:
    made = Services()
    yield made
    made.stop_all()


def service(log_file: Path) -> Service:
    return Service("web", COMMAND, {}, log_file)


def runs_soon(services: Services, name: str) -> bool:
    until = time.monotonic() + 10
    while not services[name].running and time.monotonic() < until:
        services.turn(0.1)
    return services[name].running


def test_one_whose_log_can_not_be_made_is_started_once_there_is_room(
    services: Services, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_file = tmp_path / "full" / "web.log"
    services.run(service(log_file))
    services.turn(0)
    assert not services["web"].running and services["web"].restarts >= 2
    assert f"{log_file}: No such file or directory" in services["web"].last_exit and "web can't be started" in caplog.text
    log_file.parent.mkdir()
    assert runs_soon(services, "web")


def test_a_start_that_fails_half_way_leaves_no_process(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def without_room(pid: int) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pidfd_open", without_room)
        services.run(service(tmp_path / "web.log"))
    assert not services["web"].running and "Too many open files" in services["web"].last_exit
    assert identify(started[0]) is None
    assert runs_soon(services, "web")


def test_who_waits_for_it_hears_at_once_that_it_can_not_be_started(services: Services, tmp_path: Path) -> None:
    services.run(service(tmp_path / "none" / "web.log"))
    begun = time.monotonic()
    with pytest.raises(ServiceFailed, match="No such file or directory"):
        services.wait(lambda: False, 30)
    assert time.monotonic() - begun < 5
