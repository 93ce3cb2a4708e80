"""`baton status`, `free` and `coordinate` at a store elsewhere."""

from __future__ import annotations

from controller.store.store import Store
from tests import needs
from tests.emulation.cli.conftest import Run

pytestmark = needs.REDIS


def test_a_silent_coordinator_elsewhere_is_an_error(run: Run, store: Store) -> None:
    """The supervisor published the policy: there is to be a coordinator."""
    store.set_policy({"policy": "auto"})
    code, text = run("status")
    assert code == 1 and "no coordinator answers: every gate is open" in text
    assert run("status", "--json")[0] == run("status", "--members")[0] == 1


def test_without_a_coordinator_in_the_configuration_there_is_none_to_miss(run: Run) -> None:
    code, text = run("status")
    assert code == 0 and "no coordinator is configured" in text


def test_free_without_a_coordinator_says_that_it_lasts(run: Run, store: Store) -> None:
    says = "set to free; no coordinator is running now, so every gate is open, and stays so when one starts\n"
    assert run("free") == (0, says)
    assert store.override() == "free"
    assert "until one starts" in run("coordinate")[1]


def test_links_and_members_at_once_are_refused(run: Run) -> None:
    """One of them would be left out silently."""
    code, text = run("status", "--links", "--members")
    assert code == 2 and "--members" in text and "--links" in text
