"""A running supervisor and the configuration that it is to take over."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.supervision import preflight
from controller.supervision.supervisor import Supervisor


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    """One that has started no child."""
    file = tmp_path / "baton.yaml"
    file.write_text(f"run_dir: {tmp_path}/run\nusers: none\nstore: unix:///nowhere\nweb: none\n")
    made = Supervisor(file)
    state: Any = SimpleNamespace(told=[])
    state.update = lambda **changes: state.told.append(changes)
    made._state = state
    return made


def test_a_check_that_fails_in_an_unforeseen_way_ends_nothing(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(preflight, "check_secrets", fails)
    before = supervisor.config
    supervisor._reload()
    told: Any = supervisor._state
    assert supervisor.config is before
    assert told.told == [{"config_error": "it could not be checked (KeyError); see supervisor.log"}]
