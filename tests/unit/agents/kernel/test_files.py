"""Which directories an agent can write in without a right over others' files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.kernel import files
from agents.kernel.files import in_the_way

NOBODY = 65534


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that a user of this process could reach if all were this user's."""
    asked, other = files._allows, tmp_path.stat().st_ino
    monkeypatch.setattr(files, "_allows", lambda found, wanted: found.st_ino != other or asked(found, wanted))
    return tmp_path


@pytest.mark.parametrize(("mode", "held_back"), [(0o755, True), (0o700, True), (0o1777, False), (0o773, False)])
def test_a_directory_of_another_user_is_in_the_way_unless_all_may_write_there(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, mode: int, held_back: bool
) -> None:
    elsewhere.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    monkeypatch.setattr(os, "getegid", lambda: NOBODY)
    monkeypatch.setattr(os, "getgroups", list)
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert in_the_way(elsewhere) == (elsewhere if held_back else None)


def test_it_is_enough_to_pass_through_what_is_on_the_way(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "own").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    monkeypatch.setattr(os, "getegid", lambda: NOBODY)
    monkeypatch.setattr(os, "getgroups", list)
    elsewhere.chmod(0o755)
    assert in_the_way(elsewhere / "own") is None
    elsewhere.chmod(0o700)
    assert in_the_way(elsewhere / "own") == elsewhere


def test_ones_own_directory_may_be_missing_yet(tmp_path: Path) -> None:
    assert in_the_way(tmp_path) is None and in_the_way(tmp_path / "run" / "baton") is None
