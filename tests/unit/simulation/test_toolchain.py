"""Where the compiled simulator is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation import toolchain
from simulation.toolchain import Ns3, ToolchainError, program


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_ns3", lambda: Ns3(Path("/ns3/include"), Path("/ns3/lib"), "libns3"))
    monkeypatch.setattr(toolchain, "_compiler", lambda: "/usr/bin/g++")


def test_a_user_whose_home_is_not_there_hears_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match=r"file/.* cannot be written: Not a directory; set XDG_CACHE_HOME to a directory"):
        program.__wrapped__("fabric_run")


def test_a_user_without_a_home_needs_none_to_name_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    monkeypatch.setattr(toolchain, "_build", lambda *_: None)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(ToolchainError, match=r"there is no home directory .*; set XDG_CACHE_HOME"):
        program.__wrapped__("fabric_run")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert program.__wrapped__("fabric_run").is_relative_to(tmp_path / "baton")
