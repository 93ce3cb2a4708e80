"""What keeps the dashboard from its address keeps nothing else from the supervisor."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from controller.supervision.dashboard import Dashboard


def test_a_name_that_no_name_server_knows_is_not_asked_for_in_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def unknown(host: str, *_: object, **__: object) -> object:
        asked.append(host)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    told: list[tuple[str, ...]] = []
    services: Any = SimpleNamespace(stop=lambda _: None)
    dashboard = Dashboard(services, SimpleNamespace(), SimpleNamespace(tell=lambda *words: told.append(words)), None)  # type: ignore[arg-type]
    dashboard.follow(SimpleNamespace(listen=("baton.example", 8080)))  # type: ignore[arg-type]
    before = len(asked)
    assert not any(dashboard.tend() for _ in range(10))
    assert len(asked) == before and len(told) == 1
