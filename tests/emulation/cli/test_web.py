"""`baton web` at a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
from tests.emulation.cli.conftest import Run
from tests.emulation.operating import free_port

pytestmark = needs.REDIS


@pytest.mark.parametrize(("text", "mode", "remedy"), [("{}", 0o644, "chmod 600"), ("[]", 0o600, "restore a copy")])
def test_an_unusable_users_file_is_said_at_the_start(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: int, remedy: str
) -> None:
    monkeypatch.setattr("webui.serve.run", lambda *_: None)
    users = tmp_path / "users.json"
    words = ("web", "--port", str(free_port()), "--users", str(users))
    assert run(*words)[0] == 0, "there need not be one"
    users.write_text(text)
    users.chmod(mode)
    code, said = run(*words)
    assert code == 1 and f"users file {users}: " in said and remedy in said
