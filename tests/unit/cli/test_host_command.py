"""`baton host` without a store: the file beside the key."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from cli.hosts import host
from cli.main import main
from controller.members.enrolments import Enrolments
from protocol.key import Key, KeyFileError
from protocol.key_files import new_beside
from protocol.keys import host_file
from protocol.keys.hosts import Master


@pytest.fixture
def key(tmp_path: Path) -> Path:
    Key.generate(tmp_path / "key")
    return tmp_path / "key"


def run(key: Path, *words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["host", *words, "--key", str(key), "--run-dir", str(key.parent / "run")])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output


def test_enroll_writes_a_file_that_the_master_key_certifies(key: Path, tmp_path: Path) -> None:
    code, text = run(key, "enroll", "h1", "--out", str(tmp_path / "h1"), "--mac", "02:00:00:00:00:01")
    assert code == 0 and "move it to h1" in text
    made = host_file.load(tmp_path / "h1")
    assert made.name == "h1" and Master.load(key).certifies(made.enrolment, "h1")
    assert Master.load(key).host(made.enrolment, "h1") == made
    assert "02:00:00:00:00:01" in run(key, "list")[1]


def test_an_address_is_reserved_for_one_host(key: Path, tmp_path: Path) -> None:
    mac = ("--mac", "02:00:00:00:00:01")
    run(key, "enroll", "h1", "--out", str(tmp_path / "h1"), *mac)
    code, text = run(key, "enroll", "h2", "--out", str(tmp_path / "h2"), *mac)
    assert code == 1 and "--mac 02:00:00:00:00:01: is reserved for h1" in text and not (tmp_path / "h2").exists()
    assert run(key, "enroll", "h1", "--out", str(tmp_path / "newer"), *mac)[0] == 0
    run(key, "revoke", "h1")
    assert run(key, "enroll", "h2", "--out", str(tmp_path / "h2"), *mac)[0] == 0


def test_an_address_that_another_controller_gave_out_is_reserved_too(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That controller's list is in the store, and not beside the key here."""
    theirs = Enrolments()
    theirs.add(Master.load(key).enroll("h1").enrolment, "h1", ("02:00:00:00:00:01",), 1)
    store = Mock()
    store.commands.hosts.return_value = theirs.document()
    monkeypatch.setattr(host, "open_store", lambda *_: store)
    code, text = run(key, "enroll", "h2", "--out", str(tmp_path / "h2"), "--mac", "02:00:00:00:00:01")
    assert code == 1 and "--mac 02:00:00:00:00:01: is reserved for h1" in text and not (tmp_path / "h2").exists()
    store.commands.change_hosts.assert_not_called()


def test_an_address_that_is_given_twice_is_one(key: Path, tmp_path: Path) -> None:
    run(key, "enroll", "h1", "--out", str(tmp_path / "h1"), "--mac", "02:00:00:00:00:01", "--mac", "02:00:00:00:00:01")
    assert run(key, "list")[1].count("02:00:00:00:00:01") == 1


def test_where_the_list_of_hosts_is_damaged_no_host_file_is_written(key: Path, tmp_path: Path) -> None:
    run(key, "enroll", "h1", "--out", str(tmp_path / "h1"))
    key.with_name("key.hosts").write_text("{")
    code, text = run(key, "enroll", "h2", "--out", str(tmp_path / "h2"))
    assert code == 1 and "key.hosts" in text and not (tmp_path / "h2").exists()


def test_where_the_store_is_away_the_file_for_a_change_of_the_key_stays(key: Path, tmp_path: Path) -> None:
    """The command's own key is noted nowhere then, so it could not be revoked."""
    run(key, "enroll", "h1", "--out", str(tmp_path / "h1"))
    Key.generate(new_beside(key))
    run(key, "enroll", "h2", "--out", str(tmp_path / "h2"))
    noted = host_file.load(tmp_path / "key.new.d" / "h2")
    for name in ("h2", "h3"):
        code, text = run(key, "enroll", name, "--out", str(tmp_path / "none"), "--store", f"unix://{tmp_path}/none.sock")
        assert code == 1 and "can't be reached" in text and not (tmp_path / "none").exists()
    assert [file.name for file in (tmp_path / "key.new.d").iterdir()] == ["h2"]
    assert host_file.load(tmp_path / "key.new.d" / "h2") == noted


def test_enroll_again_says_how_the_older_key_ends_and_revoke_ends_it(key: Path, tmp_path: Path) -> None:
    run(key, "enroll", "h1", "--out", str(tmp_path / "first"))
    code, text = run(key, "enroll", "h1", "--out", str(tmp_path / "second"))
    assert code == 0 and "--but-newest" in text
    assert run(key, "revoke", "h1", "--but-newest")[0] == 0
    listed = json.loads(run(key, "list", "--json")[1])
    revoked = {salt for salt, fields in listed.items() if fields["revoked"]}
    assert len(listed) == 2 and len(revoked) == 1
    assert run(key, "revoke", "h1", "--but-newest")[0] == 1
    code, text = run(key, "revoke", "h1")
    assert code == 0 and "1 key revoked" in text and "no store was reached" in text
    assert run(key, "revoke", "h1")[0] == run(key, "revoke", "h7")[0] == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("enroll", "h1\n"), "newline"),
        (("enroll", ""), "NAME"),
        (("enroll", "h1", "--mac", "01:00:00:00:00:01"), "--mac"),
        (("enroll", "h1", "--mac", "x"), "--mac"),
    ],
    ids=["text", "empty", "group", "junk"],
)
def test_a_mistake_is_one_line_and_enrolls_nobody(key: Path, tmp_path: Path, words: tuple[str, ...], what: str) -> None:
    code, text = run(key, *words, "--out", str(tmp_path / "h1"))
    assert code == 1 and len(text.strip().splitlines()) == 1, (what, text)
    assert not (tmp_path / "h1").exists() and "no host is enrolled" in run(key, "list")[1]


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("revoke", "h1")], ids=" ".join)
def test_a_mistyped_key_file_is_told(key: Path, words: tuple[str, ...]) -> None:
    code, text = run(key.with_name("kye"), *words)
    assert code == 1 and "kye: there is no such file" in text and "--key" in text
    assert not key.with_name("kye.hosts").exists()


def test_a_file_is_never_overwritten_and_then_nobody_is_enrolled(key: Path, tmp_path: Path) -> None:
    (tmp_path / "h1").write_text("mine")
    code, text = run(key, "enroll", "h1", "--out", str(tmp_path / "h1"))
    assert code == 1 and "exists" in text and (tmp_path / "h1").read_text() == "mine"
    assert "no host is enrolled" in run(key, "list")[1]


def test_while_the_master_key_changes_a_host_gets_both_files(key: Path, tmp_path: Path) -> None:
    Key.generate(new_beside(key))
    assert run(key, "enroll", "h1", "--out", str(tmp_path / "h1"))[0] == 0
    now, later = host_file.load(tmp_path / "h1"), host_file.load(tmp_path / "key.new.d" / "h1")
    assert later.fingerprint == Key.load(new_beside(key)).fingerprint != now.fingerprint
    assert later.name == now.name and later.enrolment[:8] == now.enrolment[:8] and later.secret != now.secret


@pytest.mark.parametrize("name", [".", ".."])
def test_no_host_has_the_name_of_a_directory(key: Path, tmp_path: Path, name: str) -> None:
    code, text = run(key, "enroll", name, "--out", str(tmp_path / "h"))
    assert code == 1 and f"NAME: {name!r} is a directory's" in text and not (tmp_path / "h").exists()
    Key.generate(new_beside(key))
    with pytest.raises(KeyFileError, match="revoke the keys of"):  # it may have been enrolled before
        host.save_next(key, {bytes(8): name})


def test_a_key_that_could_not_be_noted_is_not_given_out(key: Path, tmp_path: Path) -> None:
    """Nobody could revoke it."""
    code, text = run(key, "enroll", "h1", "--out", str(tmp_path / "h1"), "--store", f"unix://{tmp_path}/none.sock")
    assert code == 1 and "can't be reached" in text and not (tmp_path / "h1").exists()
    assert run(key, "enroll", "h1", "--out", str(tmp_path / "h1"))[0] == 0
    assert "h1: 1 key revoked" in run(key, "revoke", "h1")[1]


def test_a_list_without_hosts_says_so(key: Path) -> None:
    assert run(key, "list") == (0, "no host is enrolled yet: `baton host enroll NAME`\n")
    assert run(key, "list", "--json") == (0, "{}\n")
