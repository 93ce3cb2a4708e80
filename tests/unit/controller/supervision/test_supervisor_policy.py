"""The policy of a changed configuration on its way to the store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.store.store import StoreUnavailable
from controller.supervision import preflight
from controller.supervision.supervisor import Supervisor

TEXT = """\
run_dir: {directory}/run
users: none
store: unix:///nowhere
web: none
coordinator: {{attachment: s1:p, interface: lo, key_file: key, policy: {policy}}}
"""


def test_a_policy_that_is_changed_while_the_store_is_away_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "baton.yaml"
    file.write_text(TEXT.format(directory=tmp_path, policy="timeslice"))
    (tmp_path / "run").mkdir()
    supervisor = Supervisor(file)
    state: Any = SimpleNamespace(update=lambda **_: None, save=lambda: None, unsaved=False)
    state.state = SimpleNamespace(environment={})
    supervisor._state = state
    published: list[str] = []
    away = [True]

    def look() -> None:
        if away[0]:
            raise StoreUnavailable("away")

    def set_policy(policy: dict[str, Any]) -> None:
        look()
        published.append(policy["policy"])

    def publish_event(*_: str) -> None:
        look()
        supervisor.stop()  # what waited is published: one turn is enough

    monkeypatch.setattr(preflight, "check_coordinator", lambda _: "02:00:00:00:00:01")
    monkeypatch.setattr(preflight, "check_listen", lambda _: None)
    monkeypatch.setattr(supervisor._services, "run", lambda _: None)
    monkeypatch.setattr(supervisor.store, "leader", lambda: None)
    monkeypatch.setattr(supervisor.store, "set_policy", set_policy)
    monkeypatch.setattr(supervisor.store, "publish_event", publish_event)
    monkeypatch.setattr(supervisor.store.connection, "republish", look)
    file.write_text(TEXT.format(directory=tmp_path, policy="rate_limit"))
    supervisor._reload()
    assert supervisor.config.coordinator is not None and supervisor.config.coordinator.policy == "rate_limit"
    assert published == []
    away[0] = False
    supervisor.run()
    assert published == ["rate_limit"]
