"""`baton queue` at a real store."""

from __future__ import annotations

from typing import Any

import pytest

from controller.store.commands import Commands
from controller.store.store import Store
from tests import needs
from tests.emulation.cli.conftest import Run

pytestmark = needs.REDIS


def test_a_list_without_conditions_says_so(run: Run) -> None:
    assert run("queue", "list") == (0, "every queue is free\n")
    assert run("queue", "list", "--host", "h1") == (0, "every queue of h1 is free\n")


def test_a_list_of_a_host_that_is_none_is_refused(run: Run) -> None:
    code, text = run("queue", "list", "--host", "h9")
    assert code == 2 and "--host: no member is called h9; members are h1, h2" in text


def test_what_another_operator_sets_at_the_same_moment_stays(
    run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's command comes after this one has read what there is, and before it writes."""
    read = Commands.queues
    others: list[dict[str, Any]] = [{"h2": {"h1": []}}]

    def queues(self: Commands) -> dict[str, Any] | None:
        found = read(self)
        if others:
            store.commands.change_queues(lambda _: others.pop())
        return found

    monkeypatch.setattr(Commands, "queues", queues)
    assert run("queue", "add", "--host", "h1", "--destination", "h2", "--rate", "1mbit")[0] == 0
    found = read(store.commands) or {}
    assert found["h2"] == {"h1": []} and found["h1"]["h2"][0]["rate_bps"] == 10**6


def test_a_host_that_is_away_can_still_be_freed(run: Run, store: Store) -> None:
    store.commands.change_queues(lambda _: {"h8": {"h9": []}, "h1": {"h9": []}})
    assert run("queue", "add", "--host", "h8", "--destination", "h9") == (0, "h8: queue h9 is free\n")
    assert run("queue", "add", "--host", "h1", "--destination", "h9") == (0, "h1: queue h9 is free\n")
    assert store.commands.queues() == {}


def test_a_host_with_the_name_of_a_class_is_refused(run: Run, store: Store) -> None:
    store.publish_member(18, {"name": "3", "rate_bps": 10**8})
    code, text = run("queue", "remove", "--host", "h1", "--destination", "3")
    assert code == 2 and "--destination: a host called 3 can't be told from class 3" in text
    assert store.commands.queues() is None


def test_conditions_are_numbered_listed_and_removed(run: Run) -> None:
    queue = ("--host", "h1", "--class", "3")
    assert run("queue", "add", *queue, "--rate", "1mbit") == (0, "h1: the queue of class 3 has condition 1\n")
    assert run("queue", "add", *queue, "--rate", "2mbit") == (0, "h1: the queue of class 3 has condition 2\n")
    assert run("queue", "list") == (0, "h1, class 3:\n  1: at 1 Mbit/s\n  2: at 2 Mbit/s\n")
    assert run("queue", "remove", *queue, "--number", "1") == (0, "h1: the queue of class 3 has 1 condition left\n")
    code, text = run("queue", "remove", *queue, "--number", "1")
    assert code == 2 and "has no condition 1" in text
    assert run("queue", "remove", *queue) == (0, "h1: the queue of class 3 is paused\n")
