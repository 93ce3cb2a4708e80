"""`baton host` at a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.store.commands import Commands
from controller.store.store import Store
from protocol.key import Key
from tests import needs
from tests.emulation.cli.conftest import Run

pytestmark = needs.REDIS


def test_what_another_controller_notes_at_the_same_moment_stays(
    run: Run, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host comes whenever this one has read the enrolments, and before it writes them."""
    Key.generate(tmp_path / "key")
    others: dict[str, Any] = {}
    read = Commands.hosts

    def hosts(self: Commands) -> dict[str, Any] | None:
        found, number = read(self), len(others)
        others[f"{number:016x}"] = {"name": f"other{number}", "enrolled": 1, "macs": [], "revoked": 2}
        store.commands.set_hosts((found or {}) | others)
        return found

    monkeypatch.setattr(Commands, "hosts", hosts)
    assert run("host", "enroll", "h1", "--key", str(tmp_path / "key"), "--out", str(tmp_path / "h1"))[0] == 0
    names = {one["name"] for one in (read(store.commands) or {}).values()}
    assert others and names == {"h1", *(one["name"] for one in others.values())}
