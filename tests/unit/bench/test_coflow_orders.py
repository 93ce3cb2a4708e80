"""`baton bench coflow-orders`: the fluid of racks, and the ways that the rules see, are the same fabric."""

from __future__ import annotations

import itertools

import pytest

from bench.karuna import coflow_orders
from bench.karuna.coflow_orders import HOSTS, RACK, RATE_BPS, Racks, rules, schedule
from emulation.traffic.big_switch import FluidCoflow, completion_times


def test_a_racks_link_up_is_shared_by_its_hosts_and_one_down_by_those_that_send_to_it() -> None:
    racks = Racks(lambda _: RATE_BPS)
    ups, downs = dict[int, set[str]](), dict[int, set[str]]()
    for source, target in itertools.permutations(range(HOSTS), 2):
        way = racks.inner_links(f"h{source}", f"h{target}")
        assert (way == ()) is (source // RACK == target // RACK)
        if way:
            ups.setdefault(source // RACK, set()).add(way[0].source)
            downs.setdefault(target // RACK, set()).add(way[1].source)
    links = [link for some in (ups, downs) for named in some.values() for link in named]
    assert len(links) == len(set(links)) == 2 * HOSTS // RACK


def test_the_fluid_of_racks_carries_no_more_than_a_racks_link() -> None:
    two = [FluidCoflow(0.0, ((0, 2, RATE_BPS / 8),)), FluidCoflow(0.0, ((1, 4, RATE_BPS / 8),))]
    none = rules()["none"]
    assert completion_times(two, HOSTS, RATE_BPS, none) == pytest.approx([1.0, 1.0])
    found = completion_times(two, HOSTS, RATE_BPS, none, coflow_orders._links, [RATE_BPS] * HOSTS)
    assert found == pytest.approx([2.0, 2.0])


def test_only_on_racks_is_there_a_rule_that_looks_at_hosts_alone_and_it_gives_another_order() -> None:
    assert "by hosts" not in rules()
    made = rules(racks=True)
    two = {at: FluidCoflow(0.0, flows) for at, flows in enumerate((((0, 2, 9e6),), ((1, 4, 1e6),)))}
    views = {at: coflow_orders.View(one, (one.flows[0][2],), 0.0) for at, one in two.items()}
    known, by_hosts = (made[rule](0.0, views) for rule in ("known", "by hosts"))
    assert known[1] < known[0] and by_hosts[0] == by_hosts[1]


def test_racks_are_loaded_by_their_links() -> None:
    workload = coflow_orders.WORKLOADS["alike"]
    ends = {pattern: schedule(workload, pattern, 1)[-1].start_s for pattern in ("shuffle", "racks")}
    assert ends["racks"] == pytest.approx(RACK * ends["shuffle"])
