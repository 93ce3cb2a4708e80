"""Commands at a store whose documents are not as this Baton writes them."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from cli.hosts import coflow, pfc, queue
from cli.main import main
from cli.operate import key

HOST = ("--host", "h1")


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A store whose documents lack all that is read of them."""
    store = Mock()
    store.members.return_value = {16: {}}
    store.coflows.return_value = {1: {"name": "x"}}
    store.commands.queues.return_value = {"h1": {"2": [{"number": 1}]}}
    store.commands.rotation.return_value = {"stop": "accept"}
    store.connection.unread.lines.return_value = []
    store.time_ns.return_value = 0
    store.status.return_value = {"pfc": {}}
    for module in (coflow, key, pfc, queue):
        monkeypatch.setattr(module, "open_store", lambda *_: store)
    return store


@pytest.mark.parametrize(
    "words",
    [
        ("queue", "list"),
        ("queue", "add", *HOST, "--class", "2"),
        ("queue", "remove", *HOST, "--class", "2"),
        ("coflow", "list"),
        ("coflow", "open", "--flow", "h1:h2:1MB"),
        ("coflow", "close", "1"),
        ("pfc", "pause", *HOST, "--classes", "1", "--for", "1ms"),
        ("key", "rotate", "key"),
        ("key", "rotate", "key", "--cancel"),
    ],
    ids=" ".join,
)
def test_what_a_document_lacks_is_told_in_one_line(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.exception
    assert "Error: what the store holds lacks something (KeyError: " in result.output


def test_of_a_queue_it_is_told_where_its_conditions_are_shown(store: Mock) -> None:
    store.members.return_value = {16: {"name": "h1", "rate_bps": 10**9}}
    result = CliRunner().invoke(main, ["queue", "list"])
    assert result.exit_code == 1 and "'from_ns'" in result.output, result.exception


@pytest.mark.parametrize("words", [(), ("--cancel",)])
def test_a_change_of_the_key_that_cannot_be_read_is_not_taken_for_none(store: Mock, words: tuple[str, ...]) -> None:
    store.commands.rotation.return_value = None
    store.connection.unread.lines.return_value = ["rotation in the store can't be read, and is left out"]
    result = CliRunner().invoke(main, ["key", "rotate", "key", *words])
    assert result.exit_code == 1 and "can't be read; if no change of the key is under way, delete" in result.output


def test_a_change_of_the_key_is_not_cancelled_by_force(store: Mock) -> None:
    result = CliRunner().invoke(main, ["key", "rotate", "key", "--cancel", "--force"])
    assert result.exit_code == 2 and "give one of them" in result.output
    store.commands.set_rotation.assert_not_called()
