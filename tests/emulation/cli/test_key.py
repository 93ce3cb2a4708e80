"""`baton key rotate` at a real store, whose leader ends meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cli.operate import key as command
from controller.store.store import Store
from protocol.key import Key
from tests import needs
from tests.emulation.cli.conftest import Run

pytestmark = needs.REDIS

NEW_LEADER = {"sending": "1", "other": None}
"""What a controller tells that has taken over and not read the step yet."""


@pytest.fixture
def key(run: Run, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key whose change has begun, and waits for h1."""
    monkeypatch.setattr(command, "LEADER_S", 0.2)
    Key.generate(tmp_path / "key")
    assert run("key", "rotate", str(tmp_path / "key"))[0] == 0
    tell(store, waiting_for=["h1"])
    return tmp_path / "key"


def tell(store: Store, **told: Any) -> None:  # noqa: ANN401 -- as `KeyRotation.status`
    rotation = store.commands.rotation() or {}
    store.publish_status({"key": {**NEW_LEADER, **rotation, "waiting_for": [], "sending_new": 0, "problem": "", **told}})


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_where_no_leader_tells_who_follows_the_step_is_not_over(
    run: Run, store: Store, key: Path, force: tuple[str, ...]
) -> None:
    threading.Timer(0.3, store.publish_status, [{"key": NEW_LEADER}]).start()
    code, text = run("key", "rotate", str(key), "--wait", "0.8", *force)
    assert code == 1 and "nobody tells who follows step accept" in text and text.count("\n") == 1
    assert (store.commands.rotation() or {})["step"] == "accept"


def test_what_the_next_leader_tells_ends_the_step(run: Run, store: Store, key: Path) -> None:
    threading.Timer(0.2, store.publish_status, [{"key": NEW_LEADER}]).start()
    threading.Timer(0.5, tell, [store]).start()
    code, text = run("key", "rotate", str(key), "--wait", "5")
    assert code == 1 and text.startswith("every member takes both keys\n")
    assert "no coordinator took up step send" in text
