"""Random trees and cuts: tables change by the least, and no frame circles while the switches change one by one."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.openflow.intake.hosts import PortRef
from controller.openflow.tables.flowtable import Change, Table, pieces
from controller.openflow.tables.forwarding import Forwarding
from controller.openflow.tables.transition import transition
from controller.openflow.view import Link, Switch, View
from tests.unit.controller.openflow.fake_of_table import FakeNetwork, Frame, tables
from tests.unit.controller.openflow.tables.test_forwarding import BROADCAST, STRANGER, applied, fabric, mac

NOBODY = "02:00:00:00:77:77"


def spanning(links: list[Link], weights: list[int]) -> frozenset[Link]:
    graph = nx.Graph()
    for link, weight in zip(links, weights, strict=True):
        graph.add_edge(link.a.dpid, link.b.dpid, weight=weight, link=link)
    return frozenset(link for _, _, link in nx.minimum_spanning_tree(graph).edges(data="link"))


def reached(tree: frozenset[Link], dpid: int) -> set[int]:
    graph = nx.Graph([(link.a.dpid, link.b.dpid) for link in tree])
    return {dpid} | (nx.node_connected_component(graph, dpid) if dpid in graph else set())


@st.composite
def networks(draw: st.DrawFn) -> tuple[View, frozenset[Link]]:
    """A connected or broken network of up to six switches, some of whose hosts are known, and a forest that spans it."""
    count = draw(st.integers(2, 6))
    pairs = [(a, b) for a in range(1, count + 1) for b in range(a + 1, count + 1)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    links = [Link(PortRef(a, 100 + b), PortRef(b, 100 + a)) for a, b in chosen]
    view = fabric(links, count)
    known = draw(st.sets(st.sampled_from(sorted(view.hosts))))
    view = replace(view, hosts={name: host for name, host in view.hosts.items() if name in known})
    return view, spanning(links, draw(st.permutations(range(len(links)))))


class TestUnknown:
    """A frame to nobody known reaches everybody else once, as if every switch knew every host."""

    @settings(max_examples=80, deadline=None)
    @given(networks())
    def test_it_reaches_every_other_port_of_the_tree_once(self, network: tuple[View, frozenset[Link]]) -> None:
        view, tree = network
        fake = FakeNetwork(tables(view, tree), view.links)
        for source in view.edges:
            there = {ref for ref in view.edges if ref.dpid in reached(tree, source.dpid) and ref != source}
            for target in (STRANGER, BROADCAST):
                assert fake.send(source, Frame(mac(source), target)) == dict.fromkeys(there, 1)

    @settings(max_examples=80, deadline=None)
    @given(networks())
    def test_what_is_for_a_known_host_reaches_it_once(self, network: tuple[View, frozenset[Link]]) -> None:
        view, tree = network
        fake = FakeNetwork(tables(view, tree), view.links)
        for source in view.edges:
            for host in view.hosts.values():
                if host.at != source and host.at.dpid in reached(tree, source.dpid):
                    copies = fake.send(source, Frame(mac(source), host.mac))
                    assert copies[host.at] == 1
                    assert max(copies.values()) == 1
                    assert mac(source) not in view.hosts or len(copies) == 1


class TestChange:
    """From one tree to the next."""

    @settings(max_examples=80, deadline=None)
    @given(networks(), st.data())
    def test_no_frame_circles_whatever_the_order_of_switches(
        self, network: tuple[View, frozenset[Link]], data: st.DataObject
    ) -> None:
        """A link of the tree is cut, or only leaves it; a switch that was the root may leave it so, too."""
        view, tree = network
        cut = data.draw(st.sampled_from([None, *sorted(tree)]))
        left = [link for link in view.links if link != cut]
        new_tree = spanning(left, data.draw(st.permutations(range(len(left)))))
        after = replace(without(view, cut), links=tuple(left))
        old, new = tables(view, tree), tables(after, new_tree)
        step = transition(old, new, after)
        state = dict(old)
        for changes in (step.close, step.open):
            for dpid in data.draw(st.permutations(sorted(changes))):
                state[dpid] = carried_out(state[dpid], changes[dpid])
                fake = FakeNetwork(state, left)
                for source in view.edges:
                    for target in (BROADCAST, NOBODY, *view.hosts):
                        fake.send(source, Frame(mac(source), target))  # fails where a frame is copied for ever
        assert {dpid: table.flows for dpid, table in state.items()} == {dpid: table.flows for dpid, table in new.items()}

    @settings(max_examples=80, deadline=None)
    @given(networks(), st.data())
    def test_only_what_differs_is_sent(self, network: tuple[View, frozenset[Link]], data: st.DataObject) -> None:
        view, tree = network
        links = list(view.links)
        old, new = tables(view, tree), tables(view, spanning(links, data.draw(st.permutations(range(len(links))))))
        step = transition(old, new, view)
        for dpid in view.switches:
            before, after = set(old[dpid].flows.values()), set(new[dpid].flows.values())
            sent = [each[dpid] for each in (step.close, step.open) if dpid in each]
            put = [flow for change in sent for flow in change.put]
            assert sorted(map(repr, put)) == sorted(map(repr, after - before))
            gone = [key for change in sent for key in change.remove]
            assert sorted(map(repr, gone)) == sorted(map(repr, set(old[dpid].flows) - set(new[dpid].flows)))

    @settings(max_examples=40, deadline=None)
    @given(networks())
    def test_a_switch_that_nothing_concerns_keeps_its_very_table(self, network: tuple[View, frozenset[Link]]) -> None:
        view, tree = network
        forwarding = Forwarding()
        before = forwarding.tables(view, tree)
        for mac_address, host in view.hosts.items():
            rest = {name: other for name, other in view.hosts.items() if name != mac_address}
            after = forwarding.tables(replace(view, hosts=rest), tree)
            named = {
                dpid
                for dpid, table in before.items()
                if any(mac_address in (key.match.eth_src, key.match.eth_dst) for key in table.flows)
            }
            assert {dpid for dpid in after if after[dpid] is not before[dpid]} == named
            assert host.at.dpid in named
            before = forwarding.tables(view, tree)


@given(networks(), st.integers(1, 20))
def test_a_change_in_pieces_is_the_same_change(network: tuple[View, frozenset[Link]], size: int) -> None:
    view, tree = network
    for change in transition({}, tables(view, tree), view).open.values():
        parts = list(pieces(change, size))
        assert [flow for part in parts for flow in part.put] == list(change.put)
        assert {number: ports for part in parts for number, ports in part.groups.items()} == change.groups
        assert all(len(part.put) + len(part.groups) + len(part.remove) <= size for part in parts)


def without(view: View, cut: Link | None) -> View:
    switches = {
        dpid: Switch(
            dpid,
            switch.name,
            {number: replace(port, up=PortRef(dpid, number) not in (cut or ())) for number, port in switch.ports.items()},
        )
        for dpid, switch in view.switches.items()
    }
    return replace(view, switches=switches)


def carried_out(table: Table, change: Change) -> Table:
    return applied(table, change)
