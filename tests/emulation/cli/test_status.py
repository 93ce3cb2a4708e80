"""`baton status`, `free` and `coordinate` at a store elsewhere."""

from __future__ import annotations

import json

from click.testing import CliRunner

from cli.main import main
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


def test_json_without_further_options_is_everything(run: Run) -> None:
    told = json.loads(run("status", "--json")[1])
    assert set(told["members"]) == {"16", "17"} and {"links", "listed"}.isdisjoint(told)


def test_json_has_the_members_that_were_searched_for(run: Run) -> None:
    for words in (("--search", "h2"), ("--members", "--search", "h2")):
        told = json.loads(run("status", "--json", *words)[1])
        assert set(told["members"]) == {"17"} and "store" in told
        assert told["listed"] == {"list": "members", "total": 2, "matching": 1, "page": 1, "pages": 1, "first": 1}


def test_json_comes_in_pages_only_if_one_is_asked_for(run: Run, store: Store) -> None:
    for node in range(18, 118):
        store.publish_member(node, {"name": f"m{node}", "rate_bps": 10**8})
    assert len(json.loads(run("status", "--json", "--search", "m")[1])["members"]) == 100
    told = json.loads(run("status", "--json", "--page", "3")[1])
    assert set(told["members"]) == {"116", "117"}
    assert told["listed"]["page"] == told["listed"]["pages"] == 3


def test_json_has_the_links_as_the_table_has_them(run: Run, store: Store) -> None:
    ends = {"capacity_bps": 10**8, "from": "port speed"}
    links = [{"source": "s1", "target": "s1:h1", **ends}, {"source": "s1", "target": "s1:h2", **ends}]
    store.publish_fabric({"fabric": {}, "blocked": [], "links": links})
    told = json.loads(run("status", "--json", "--links", "--search", "h2")[1])
    (link,) = told["links"]
    assert (link["target"], link["capacity_bps"], link["load_bps"], link["state"]) == ("s1:h2", 10**8, None, "")
    assert told["listed"]["list"] == "links" and told["listed"]["matching"] == 1
    assert set(told["members"]) == {"16", "17"} and len(told["fabric"]["links"]) == 2


def test_a_page_that_is_not_there_is_told(run: Run, store: Store) -> None:
    says = "--page 2: there is 1 page, so this is page 1"
    for words in ((), ("--members",)):
        assert says in run("status", "--page", "2", *words)[1]
        assert "--page" not in run("status", "--page", "1", *words)[1]
    link = {"source": "s1", "target": "s1:h1", "capacity_bps": 10**8, "from": "port speed"}
    store.publish_fabric({"fabric": {}, "blocked": [], "links": [link]})
    assert says in run("status", "--page", "2", "--links")[1]


def test_json_tells_of_a_page_that_is_not_there_beside_its_document(store: Store) -> None:
    done = CliRunner().invoke(main, ["status", "--json", "--page", "9", "--store", store.url])
    assert json.loads(done.stdout)["listed"]["page"] == 1
    assert "--page 9: there is 1 page, so this is page 1" in done.stderr
