"""Search, order and pages of lists that are too long for one document, and the slots of the last seconds by host."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.webui.page.node import found_by, script
from webui.state import lists
from webui.state.lists import Flow, Member, Wanted, paged
from webui.state.window import Window

FLOWS = [
    Flow("h1", "h2", 50_000_000, 0, False, 0.0, 1),
    Flow("h1", "h10", 5_000_000, 9, True, 2.0, 1),
    Flow("h2", "h1", 20_000_000, 0, False, 0.0, 2),
]
MEMBERS = [
    Member(16, "h10", {"addresses": ["10.0.0.10"], "gate": "tbf", "refused": {"1": 2}}),
    Member(17, "h2", {"addresses": ["10.0.0.2"], "gate": "plug", "suspect": ["it lies"]}),
]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 12))
def test_the_pages_together_are_the_list_and_each_says_where_it_is(total: int, most: int, page: int) -> None:
    everything = list(range(total))
    pages = [paged(everything, total, Wanted(page=number, most=most)) for number in range(1, -(-total // most) + 1)]
    assert [row for one in pages for row in one.rows] == everything
    one = paged(everything, total, Wanted(page=page, most=most))
    assert one.page <= one.pages and (one.first == 0) == (total == 0)
    assert one.rows == everything[one.first - 1 :][:most] if total else one.rows == []


def found(search: str, sort: str = "rate", *, down: bool = True) -> list[tuple[str, str]]:
    page = lists.flows(FLOWS, Wanted(search, sort, down))
    assert page.total == 3
    return [(row["source"], row["destination"]) for row in page.rows]


def test_flows_are_searched_by_the_words_of_the_page() -> None:
    assert found("") == [("h1", "h2"), ("h2", "h1"), ("h1", "h10")]
    assert found("h1>h2") == found("h1 > h2") == found("h1 -> h2") == [("h1", "h2")]
    assert found("> h1") == [("h2", "h1")] and found("regulated") == found("waiting") == [("h1", "h10")]
    assert found(">10M free") == [("h1", "h2"), ("h2", "h1")] and found("h3") == []
    assert found("", "destination", down=False) == [("h2", "h1"), ("h1", "h2"), ("h1", "h10")]


NAMES = ("h1", "_a", "10.0.0.1", "10.0.0.2", "10.0.0.20", "5gcore", "ü1")


@pytest.mark.parametrize(("search", "source", "destination"), [
    ("10.0.0.1 > 10.0.0.2", "10.0.0.1", "10.0.0.2"), ("> 10.0.0.2", "", "10.0.0.2"), ("h1 -> 5gcore", "h1", "5gcore"),
    ("> 5gcore", "", "5gcore"), ("h1 → ü1", "h1", "ü1"), ("h1 >", "h1", ""), ("> _a", "", "_a"), (">10.0.0.2", "", "10.0.0.2"),
])  # fmt: skip
def test_a_pair_of_hosts_is_found_whatever_their_names_begin_with(search: str, source: str, destination: str) -> None:
    pairs = list(permutations(NAMES, 2))
    wanted = [pair for pair in pairs if source in ("", pair[0]) and destination in ("", pair[1])]
    flows = [Flow(*pair, 50_000_000, 0, False, 0.0, 1) for pair in pairs]
    assert [(flow.source, flow.destination) for flow in flows if lists.flow_test(search)(flow)] == wanted
    page, _, _ = script("views/flows.js").partition("class FlowsView")  # it filters a small fabric's flows by itself
    asked = json.dumps([search, [flow._asdict() for flow in flows]])
    program = script("lib/format.js") + page
    told = found_by(f"const [search, flows] = {asked}; {program} answer(flows.filter(flowTest(search)))")
    assert [(flow["source"], flow["destination"]) for flow in told] == wanted


def test_members_are_found_by_name_address_gate_and_what_is_wrong() -> None:
    def names(search: str, sort: str = "name") -> list[str]:
        return [one.name for one in lists.members(MEMBERS, Wanted(search, sort)).rows]

    assert names("") == ["h2", "h10"] and names("10.0.0.10") == names("refused") == ["h10"]
    assert names("suspect") == names("plug lies") == ["h2"] and names("", "node") == ["h10", "h2"]


def test_nodes_that_are_what_is_sought_come_first() -> None:
    names = [("h12", "host", ("10.0.0.12",)), ("h1", "host", ("10.0.0.1",)), ("rack1", "switch", ()), ("xh1", "host", ())]
    page = lists.nodes(names, Wanted("h1"))
    assert [row["id"] for row in page.rows] == ["h1", "h12", "xh1"] and (page.total, page.matching) == (4, 3)
    assert [row["id"] for row in lists.nodes(names, Wanted("10.0.0.1")).rows] == ["h1", "h12"]
    assert [row["id"] for row in lists.nodes(names, Wanted("h1", down=True)).rows] == ["h1", "h12", "xh1"]
    assert [row["id"] for row in lists.nodes(names, Wanted("", down=True)).rows] == ["xh1", "rack1", "h12", "h1"]


FATES = {10: "slot", 2: "slot", 3: "lost"}  # by node


def test_the_window_keeps_ten_seconds_and_the_last_word_on_each_slot() -> None:
    window = Window()
    window.add([("1-0", {"now_us": 5_000, "rows": [["slot", 1, 16, 17, 0, 4_000, 9], ["slot", 2, 18, 17, 0, 1_000, 9]]})])
    window.add([("2-0", {"now_us": 6_000, "rows": [["yield", 1, 16, 17, 0, 2_000, 9], ["lost", 3, 18, 17, 0, 900, 9]]})])
    page = window.page(lambda node: f"h{node}", Wanted(sort="held", down=True))
    assert [(row["name"], row["held_us"], row["lost"]) for row in page.rows] == [("h16", 2_000, 0), ("h18", 1_000, 1)]
    assert window.page(lambda node: f"h{node}", Wanted("h18", "lost")).matching == 1 and window.last_id == "2-0"
    window.add([("3-0", {"now_us": 12_000_000, "rows": []})])
    assert window.page(str, Wanted()).total == 0


@pytest.mark.parametrize(
    ("sort", "down", "nodes"),
    [("name", False, [2, 3, 10]), ("name", True, [10, 3, 2]), ("lost", False, [2, 10, 3]), ("lost", True, [3, 2, 10])],
)
def test_the_window_is_sorted_up_or_down(sort: str, down: bool, nodes: list[int]) -> None:
    window = Window()
    window.add([("1-0", {"now_us": 5_000_000, "rows": [[kind, 1, node, 0, 0, 1, 9] for node, kind in FATES.items()]})])
    assert [row["node"] for row in window.page(str, Wanted(sort=sort, down=down)).rows] == nodes


def test_at_least_a_rate_has_the_flows_of_just_that_rate() -> None:
    assert found(">=50M") == [("h1", "h2")] and found(">50M") == []


def test_a_node_found_by_an_address_shows_that_address() -> None:
    nodes = [("h1", "host", tuple(f"10.0.0.{number}" for number in range(1, 9)))]
    assert "10.0.0.8" in lists.nodes(nodes, Wanted("10.0.0.8")).rows[0]["addresses"]
