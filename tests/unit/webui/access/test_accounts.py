"""Users and API tokens in their file, and the commands that change them."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from webui.access.accounts import Accounts, AccountsError

PASSWORD = "correct horse battery"


def run(*words: str, given: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(main, list(words), input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


class TestTheFile:
    """Mode 0600, no secret in it, read again when it changed."""

    def test_it_is_for_its_owner_only_and_holds_no_secret(self, file: Path) -> None:
        accounts = Accounts(file)
        accounts.set_user("ann", PASSWORD, now_s=1)
        text = accounts.create_token("grafana", now_s=1)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert PASSWORD not in file.read_text() and text.split("_", 2)[2] not in file.read_text()
        assert json.loads(file.read_text())["users"]["ann"]["password"].startswith("scrypt:")

    def test_a_file_open_to_others_is_refused(self, file: Path) -> None:
        Accounts(file).set_user("ann", PASSWORD, now_s=1)
        file.chmod(0o640)
        with pytest.raises(AccountsError, match="chmod 600"):
            Accounts(file).users()

    def test_what_is_not_a_users_file_is_refused_and_kept(self, file: Path) -> None:
        file.write_text("[]")
        file.chmod(0o600)
        with pytest.raises(AccountsError, match="not one of Baton's"):
            Accounts(file).set_user("ann", PASSWORD, now_s=1)
        assert file.read_text() == "[]"

    def test_a_removed_user_is_out_without_a_restart(self, file: Path) -> None:
        Accounts(file).set_user("ann", PASSWORD, now_s=1)
        web = Accounts(file)
        assert web.is_password("ann", PASSWORD)
        Accounts(file).remove_user("ann")
        assert not web.is_password("ann", PASSWORD) and web.generation("ann") is None

    def test_a_new_password_is_another_generation(self, file: Path) -> None:
        accounts = Accounts(file)
        accounts.set_user("ann", PASSWORD, now_s=1)
        before = accounts.generation("ann")
        accounts.set_user("ann", PASSWORD, now_s=2)
        assert accounts.generation("ann") not in (None, before)

    def test_sessions_outlive_a_restart(self, file: Path) -> None:
        Accounts(file).set_user("ann", PASSWORD, now_s=1)
        assert Accounts(file).session_secret() == Accounts(file).session_secret() != ""


class TestTokens:
    """A token is shown once and kept hashed; it ends when it expires or is revoked."""

    def test_the_text_that_was_shown_is_the_token(self, file: Path) -> None:
        accounts = Accounts(file)
        text = accounts.create_token("grafana", now_s=1)
        found = accounts.token(text, now_s=2)
        assert found is not None and found.name == "grafana"

    def test_any_other_text_is_not(self, file: Path) -> None:
        accounts = Accounts(file)
        text = accounts.create_token("grafana", now_s=1)
        for wrong in ("", "baton", "baton__", text[:-1], text + "x", text.replace("baton", "bat0n"), "baton_0_\ud800"):
            assert accounts.token(wrong, now_s=2) is None

    def test_it_ends_when_it_expires_or_is_revoked(self, file: Path) -> None:
        accounts = Accounts(file)
        short, long = accounts.create_token("short", now_s=1, expires_s=10), accounts.create_token("long", now_s=1)
        assert accounts.token(short, now_s=9) and not accounts.token(short, now_s=10)
        accounts.revoke_token("long")
        assert accounts.token(long, now_s=2) is None

    def test_a_name_is_given_once(self, file: Path) -> None:
        Accounts(file).create_token("grafana", now_s=1)
        with pytest.raises(AccountsError, match="exists"):
            Accounts(file).create_token("grafana", now_s=1)


class TestTheCommands:
    """`baton user` and `baton token`."""

    def test_a_user_who_is_added_is_listed_until_removed(self, file: Path) -> None:
        assert run("user", "add", "ann", "--password-stdin", "--file", str(file), given=PASSWORD + "\n")[0] == 0
        assert run("user", "list", "--file", str(file))[1].startswith("ann\t")
        assert run("user", "remove", "ann", "--file", str(file))[0] == 0
        assert "has no user" in run("user", "list", "--file", str(file))[1]

    @pytest.mark.parametrize(("group", "word"), [("user", "remove"), ("token", "revoke")])
    def test_what_does_not_exist_is_not_removed_and_nothing_is_made(self, file: Path, group: str, word: str) -> None:
        elsewhere = file.parent / "misspelt" / "users.json"
        code, text = run(group, word, "ann", "--file", str(elsewhere))
        assert code == 1 and f"{group} ann: does not exist in {elsewhere}" in text
        assert not elsewhere.parent.exists()

    @pytest.mark.parametrize(("name", "password", "field"), [("Ann!", PASSWORD, "name"), ("ann", "short", "password")])
    def test_what_will_not_do_is_named_in_one_line(self, file: Path, name: str, password: str, field: str) -> None:
        code, text = run("user", "add", name, "--password-stdin", "--file", str(file), given=password + "\n")
        assert code == 1 and field in text and text.count("\n") == 1 and not file.exists()

    def test_a_password_that_is_no_text_is_refused_in_one_line(self, file: Path) -> None:
        words = ["user", "add", "ann", "--password-stdin", "--file", str(file)]
        done = CliRunner().invoke(main, words, input=b"\xff\xfe correct horse\n")
        assert done.exit_code == 1 and "UTF-8" in done.output and done.output.count("\n") == 1 and not file.exists()

    def test_without_a_terminal_a_password_is_neither_asked_for_nor_shown(self, file: Path) -> None:
        words = [sys.executable, "-m", "cli.main", "user", "add", "ann", "--file", str(file)]
        given = f"{PASSWORD}\n{PASSWORD}\n"
        done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, start_new_session=True)
        assert done.returncode == 2 and done.stdout == "" and not file.exists()
        assert "--password-stdin" in done.stderr and done.stderr.count("\n") == 1

    @pytest.mark.parametrize(("source", "says"), [("<&-", "standard input is closed"), ("</dev/zero", "password")])
    def test_where_no_password_comes_that_is_told_in_one_line(self, file: Path, source: str, says: str) -> None:
        words = [sys.executable, "-m", "cli.main", "user", "add", "ann", "--password-stdin", "--file", str(file)]
        limited = ["sh", "-c", f'ulimit -v 4000000; exec "$@" {source}', "sh", *words]  # KiB: no machine is used up
        done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode and says in done.stderr and done.stderr.count("\n") == 1 and not file.exists()

    def test_a_password_may_end_as_lines_do_elsewhere(self, file: Path) -> None:
        assert run("user", "add", "ann", "--password-stdin", "--file", str(file), given=PASSWORD + "\r\n")[0] == 0
        assert Accounts(file).is_password("ann", PASSWORD)

    def test_a_token_is_printed_once_and_listed_without_its_secret(self, file: Path) -> None:
        code, text = run("token", "create", "ci", "--expires", "30d", "--file", str(file))
        assert code == 0 and Accounts(file).token(text.strip(), now_s=1) is not None
        listed = run("token", "list", "--file", str(file))[1]
        assert "ci\t" in listed and text.strip().split("_", 2)[2] not in listed
        assert run("token", "revoke", "ci", "--file", str(file))[0] == 0
        assert run("token", "revoke", "ci", "--file", str(file))[0] == 1

    def test_a_wrong_expiry_names_the_option(self, file: Path) -> None:
        code, text = run("token", "create", "ci", "--expires", "soon", "--file", str(file))
        assert code == 2 and "--expires" in text


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("users", "x"), ("users", {"set_s": 1}), ("users", {"password": "foo$bar$baz", "set_s": 1}),
        ("users", {"password": None, "set_s": 1}), ("users", {"password": "scrypt:1$a$b", "set_s": float("inf")}),
        ("tokens", None), ("tokens", {"name": "zz"}),
        ("tokens", {"name": "zz", "secret": None, "created_s": 1, "expires_s": 0}),
    ],
)  # fmt: skip
def test_a_file_with_a_damaged_entry_is_refused_as_such(tmp_path: Path, kind: str, entry: object) -> None:
    file = tmp_path / "users.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps({"secret": "s", "users": {}, "tokens": {}} | {kind: {"bob": entry}}))
    with pytest.raises(AccountsError, match="not one of Baton's"):
        Accounts(file).users()


def test_a_file_that_is_nested_without_end_is_refused_as_such(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.touch(mode=0o600)
    file.write_text("[" * 100_000)
    with pytest.raises(AccountsError, match="not one of Baton's"):
        Accounts(file).users()
