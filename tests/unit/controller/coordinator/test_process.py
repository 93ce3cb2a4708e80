"""How the coordinator's process starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.coordinator import process


class Reached(Exception):
    """The start came as far as this."""


def test_no_garbage_is_looked_for_from_the_start_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A coordinator that died must be back within a second: a fifth of its imports' time would go into that."""
    done: list[str] = []

    def log() -> None:
        done.append("log")
        raise Reached

    monkeypatch.setattr(process, "hold_garbage", lambda: done.append("hold"))
    monkeypatch.setattr(process, "log_to_stderr", log)
    with pytest.raises(Reached):
        process.main(["--config", str(tmp_path / "settings.json")])
    assert done == ["hold", "log"]
