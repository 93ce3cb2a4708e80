"""A large fabric: its groups, the loads and sums by group, and which pairs of hosts are regulated."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.store.feeds import MembersRead, Snapshot
from topology import shapes
from topology.fabric import Fabric
from topology.spanning_tree import compute
from webui.http.metrics import parts
from webui.state import ledger, model
from webui.state.groups import Crossed
from webui.state.ledger import Ledger, changes, node_document
from webui.state.link_sums import LinkSums
from webui.state.model import Picture
from webui.state.poller import Reading

ROWS = shapes.build("xco_rows", rows=3, racks_per_row=2, hosts_per_rack=2)
SHAPES = [ROWS, shapes.build("leaf_spine"), shapes.build("three_tier"), shapes.build("ring"), shapes.build("star")]


def picture(fabric: Fabric) -> Picture:
    return Picture({"fabric": fabric.to_dict(), "blocked": [list(link) for link in compute(fabric).blocked]}, 1)


def ports(of: Picture, part: float = 0.5) -> dict[str, Any]:
    found = []
    for at, (a, b) in enumerate(sorted(of.forwarding)):
        rate = of.rates[a, b]
        load_bps = int(rate * part * (at % 3) / 2)
        found.append({"source": a, "target": b, "load_bps": load_bps, "rate_bps": rate, "dropped": at % 2})
    return {"links": found}


def snapshot(of: Picture, *, contended: Any = (), changed: Any = None, rate: int = 10**6, regulated: bool = False) -> Snapshot:  # noqa: ANN401 -- any links
    hosts = list(of.fabric.hosts)
    members = {
        16 + at: {
            "name": host,
            "addresses": [str(one) for one in of.fabric.addresses(host)],
            "sent_bps": {str(16 + (at + 1) % len(hosts)): rate},
            "backlog_bytes": {str(16 + (at + 1) % len(hosts)): 10},
            "suspect": ["it lies"] if at == 0 else [],
            **({"regulated": []} if regulated else {}),
        }
        for at, host in enumerate(hosts)
    }
    documents = dict.fromkeys(("fabric", "ports", "status", "thresholds", "policy", "telemetry"), None)
    return Snapshot(
        {**documents, "status": {"contended": [list(one) for one in contended]}, "ports": ports(of)},
        dict.fromkeys(documents, 1),
        dict.fromkeys(documents, 1),
        members,
        None,
        1,
        MembersRead(changed),
    )


class TestGroups:
    """Each switch with what is below it."""

    def test_rows_hold_racks_and_racks_hosts(self) -> None:
        groups = picture(ROWS).groups
        assert [groups.of[name].above for name in ("core", "row2", "rack3")] == ["", "core", "row2"]
        shape = {one["id"]: one for one in groups.shape()}
        assert shape["core"]["hosts"] == 12 and shape["row2"]["hosts"] == 4 and shape["rack3"]["own"] == 2
        assert shape["row2"]["switches"] == 3 and shape["row2"]["rate_bps"] == 10**10
        assert groups.way("h5") == ["core", "row2", "rack3"] and groups.way("nowhere") == []

    @pytest.mark.parametrize("fabric", SHAPES)
    def test_every_host_is_held_once_by_the_highest_tier_and_sums_count_it_once(self, fabric: Fabric) -> None:
        groups = picture(fabric).groups
        tops = [one for one in groups.shape() if not one["above"]]
        assert sum(one["hosts"] for one in tops) == len(fabric.hosts)
        assert sum(one["switches"] for one in tops) == len(fabric.switches)

    @pytest.mark.parametrize("fabric", SHAPES)
    def test_a_pair_crosses_a_link_just_when_its_path_does(self, fabric: Fabric) -> None:
        of = picture(fabric)
        some = [link for at, link in enumerate(sorted(of.forwarding)) if at % 3 == 0]
        crossed = Crossed(of.groups, of.tree.parent, some)
        for one, other in permutations(fabric.hosts, 2):
            assert crossed.crosses(one, other) == any(hop in some for hop in of.path(one, other))
        assert not crossed.crosses("h1", "nowhere")


class TestLinkSums:
    """Loads by group, and by name."""

    @pytest.mark.parametrize("fabric", SHAPES)
    def test_named_loads_are_those_of_the_whole_state(self, fabric: Fabric) -> None:
        of = picture(fabric)
        told, hot = ports(of), [next(iter(sorted(of.forwarding)))]
        sums = LinkSums(of, told, hot)
        assert sums.named(of.forwarding) == model.links(of, told, {"contended": hot}, [])
        most, contended, drops = sums.by_group()
        tops = [switch for switch, group in of.groups.of.items() if not group.above]
        assert sum(contended[top] for top in tops) == 1
        assert sum(drops[top] for top in tops) == sum(one["dropped"] for one in told["links"])
        assert max(most.values()) == 0.5

    def test_what_no_switch_counts_is_what_hosts_report(self) -> None:
        of = picture(ROWS)
        book = Ledger()
        bare = snapshot(of)._replace(documents={**snapshot(of).documents, "ports": None})
        book.update(of, bare)
        assert book.links().named([("h1", "rack1")])["h1>rack1"]["bps"] == 10**6
        told = [one._asdict() for one in book.flows()]
        assert book.links().named(of.forwarding) == model.links(of, None, {}, told)

    def test_what_hosts_report_is_followed_while_no_switch_counts(self) -> None:
        of, book = picture(ROWS), Ledger()
        for rate in (10**6, 5 * 10**6):
            now = snapshot(of, rate=rate, changed=frozenset(range(16, 28)))
            book.update(of, now._replace(documents={**now.documents, "ports": None}))
            assert book.links().named([("h1", "rack1")])["h1>rack1"]["bps"] == rate

    def test_that_switches_count_blocked_links_hides_no_link_that_they_do_not_count(self) -> None:
        of = picture(shapes.build("leaf_spine"))
        told = [one for one in ports(of)["links"] if "h1" not in (one["source"], one["target"])]
        closed = {link: rate for link, rate in of.rates.items() if link not in of.forwarding}
        blocked = [{"source": a, "target": b, "load_bps": 0, "rate_bps": rate, "dropped": 0} for (a, b), rate in closed.items()]
        now = snapshot(of)
        book = Ledger()
        book.update(of, now._replace(documents={**now.documents, "ports": {"links": told + blocked}}))
        assert len(blocked) > 2 and book.links().named([("h1", "leaf1")])["h1>leaf1"]["bps"] == 10**6


class TestLedger:
    """The state of a large fabric."""

    def test_it_is_large_by_hosts_or_flows_until_there_are_clearly_fewer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of, book = picture(ROWS), Ledger()
        assert not book.update(of, snapshot(of))
        monkeypatch.setattr(ledger, "FLOWS", 11)
        assert book.update(of, snapshot(of))
        monkeypatch.setattr(ledger, "FLOWS", 14)
        assert book.update(of, snapshot(of)) and not Ledger().update(of, snapshot(of))
        monkeypatch.setattr(ledger, "HOSTS", 11)
        assert Ledger().update(of, snapshot(of))

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(st.sets(st.integers(16, 27)), st.integers(0, 9), st.sets(st.integers(0, 17)))))
    def test_what_is_kept_up_to_date_is_what_is_made_anew(self, steps: list[tuple[set[int], int, set[int]]]) -> None:
        of, book = picture(ROWS), Ledger()
        links = sorted(of.forwarding)
        now = snapshot(of)
        book.update(of, now)
        told = book.state(alive=True, time_ms=1)
        for changed, rate, hot in steps:
            new = snapshot(of, contended=[links[at] for at in sorted(hot)], rate=rate)
            members = {node: new.members[node] if node in changed else now.members[node] for node in now.members}
            now = new._replace(members=members, members_read=MembersRead(frozenset(changed)))
            book.update(of, now)
            fresh = Ledger()
            fresh.update(of, now._replace(members_read=MembersRead(None)))
            state = book.state(alive=True, time_ms=2)
            assert state == fresh.state(alive=True, time_ms=2)
            assert sorted(book.flows()) == sorted(fresh.flows())
            change = changes(told, state)
            assert {**told, **change, "groups": {**told["groups"], **change.get("groups", {})}} == state
            told = state

    def test_of_the_links_that_were_bypassed_those_with_an_alarm_are_never_left_out(self) -> None:
        of, book = picture(ROWS), Ledger()
        quiet = [{"source": f"s{at}", "target": "t", "uncoordinated_bytes": at, "alarm": False} for at in range(150)]
        loud = {"source": "s150", "target": "t", "uncoordinated_bytes": 0, "alarm": True}
        now = snapshot(of)
        book.update(of, now._replace(documents={**now.documents, "status": {"bypass": [*quiet, loud]}}))
        state = book.state(alive=True, time_ms=1)
        assert state["bypass"] == [loud, *quiet[:50:-1]]
        assert state["totals"]["bypass"] == 151 and state["totals"]["bypass_alarms"] == 1
        found = {one.name: one.samples for part in parts(Reading(now, of, True, state, {})) for one in part()}
        assert found["baton_links_bypassed"][0].value == 151 and len(found["baton_bypass_alarm"]) == 100
        assert found["baton_links_bypass_alarms"][0].value == 1

    def test_its_sums_are_those_of_the_whole_state(self) -> None:
        of, book = picture(ROWS), Ledger()
        hot = [("rack1", "row1")]
        now = snapshot(of, contended=hot)
        book.update(of, now)
        state = book.state(alive=True, time_ms=1)
        whole = model.state(of, now.documents, now.members, None, alive=True, time_ms=1)
        assert state["totals"]["regulated"] == sum(one["regulated"] for one in whole["flows"]) > 0
        assert state["totals"]["backlog_bytes"] == 120 and state["totals"]["contended"] == 1 and state["totals"]["suspect"] == 1
        assert state["groups"]["core"]["members"] == 12 and state["groups"]["row1"]["odd"] == 1
        assert state["coordinator"] == whole["coordinator"] and state["members"] == state["flows"] == []

    def test_the_word_of_a_member_that_names_its_regulated_destinations_counts(self) -> None:
        of, book = picture(ROWS), Ledger()
        book.update(of, snapshot(of, contended=[("rack1", "row1")], regulated=True))
        assert book.state(alive=True, time_ms=1)["totals"]["regulated"] == 0

    def test_a_weight_is_shown_once_it_is_in_force_although_no_member_says_anything_new(self) -> None:
        of, book = picture(ROWS), Ledger()
        now = snapshot(of)
        book.update(of, now)
        assert {flow.weight for flow in book.flows()} == {1}
        status = {**(now.documents["status"] or {}), "weights": [["h1", "", 4]]}
        book.update(of, now._replace(documents={**now.documents, "status": status}, members_read=MembersRead(frozenset())))
        assert [flow.weight for flow in book.flows() if flow.source == "h1"] == [4]

    def test_a_node_s_document_has_its_flows_loads_and_hosts(self) -> None:
        of, book = picture(ROWS), Ledger()
        book.update(of, snapshot(of))
        host, rack = node_document(book, "h5", 20), node_document(book, "rack3", 20)
        assert host is not None and rack is not None and node_document(book, "nowhere", 20) is None
        assert host["way"] == ["core", "row2", "rack3"] and host["sent"] == 1 and host["incoming"]["flows"] == 1
        assert [one["id"] for one in rack["hosts"]] == ["h5", "h6"] and set(rack["links"]) == {"rack3>row2", "row2>rack3"}
