"""The tuner's process."""

from __future__ import annotations

import os
import socket

import pytest

from controller.priorities import tuner


def test_a_controller_that_was_started_by_nice_has_a_tuner_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("only root may raise a priority")

    monkeypatch.setattr(os, "getpriority", lambda *_: 5)
    monkeypatch.setattr(os, "setpriority", refused)
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: None)
    near, far = socket.socketpair()
    near.close()
    assert tuner.main(["--fd", str(far.detach())]) == 0
