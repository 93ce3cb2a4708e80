"""Forwarding along the tree and the rules for the control EtherType, asked of a fake OpenFlow network."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.openflow.intake.hosts import Host, PortRef
from controller.openflow.tables.flowtable import Cause, Table, diff
from controller.openflow.tables.forwarding import (
    ASKING_MAC,
    ETH_ARP,
    ETH_CONTROL,
    ETH_LLDP,
    HEARTBEAT_MAC,
    LLDP_MAC,
    ControlAttachment,
    Forwarding,
)
from controller.openflow.tables.transition import transition
from controller.openflow.view import Link, Port, Switch, View
from controller.switch_queues.control_room import CONTROL_QUEUE
from tests.unit.controller.openflow.fake_of_table import FakeNetwork, Frame, push, tables

HOST_PORTS = (1, 2)
LEFT, RIGHT = 10, 11
BROADCAST = "ff:ff:ff:ff:ff:ff"
COORDINATOR = "02:00:00:00:00:c0"
STRANGER = "02:00:00:00:99:99"


def mac(ref: PortRef) -> str:
    return f"02:00:00:00:{ref.dpid:02x}:{ref.number:02x}"


def fabric(links: list[Link], count: int, learned: bool = True) -> View:
    """`count` switches with two host ports each (one host a port, known if `learned`), and these links."""
    trunks = {end for link in links for end in link}
    switches, edges = {}, set()
    for dpid in range(1, count + 1):
        numbers = [*HOST_PORTS, *(end.number for end in trunks if end.dpid == dpid)]
        ports = {number: Port(number, f"s{dpid}-eth{number}", up=True) for number in numbers}
        switches[dpid] = Switch(dpid, f"s{dpid}", ports)
        edges |= {PortRef(dpid, number) for number in HOST_PORTS}
    hosts = {mac(ref): Host(mac(ref), ref, (f"10.0.{ref.dpid}.{ref.number}",)) for ref in edges}
    return View(switches, tuple(links), frozenset(edges), hosts if learned else {})


def ring(count: int) -> list[Link]:
    return [
        Link(*sorted((PortRef(dpid, RIGHT), PortRef(dpid % count + 1, LEFT)))) for dpid in range(1, count + 1)
    ]


RING = ring(4)
VIEW = fabric(RING, 4)
TREE = frozenset(RING[:3])
ATTACHED = ControlAttachment("s2", "s2-eth2", COORDINATOR)
COORDINATOR_PORT = PortRef(2, 2)


def network(
    view: View = VIEW, tree: frozenset[Link] = TREE, attachment: ControlAttachment | None = ATTACHED
) -> FakeNetwork:
    return FakeNetwork(tables(view, tree, attachment), view.links)


class TestForwarding:
    """Frames follow the tree, and reach whom they are for."""

    def test_a_broadcast_reaches_every_other_host_port_exactly_once(self) -> None:
        for source in VIEW.edges:
            copies = network().send(source, Frame(mac(source), BROADCAST))
            assert copies == {ref: 1 for ref in VIEW.edges if ref != source}

    def test_a_known_destination_gets_the_only_copy(self) -> None:
        for source in VIEW.edges:
            for target in VIEW.edges - {source}:
                assert network().send(source, Frame(mac(source), mac(target))) == {target: 1}

    def test_an_unknown_destination_is_flooded(self) -> None:
        assert network().send(PortRef(1, 1), Frame(mac(PortRef(1, 1)), STRANGER)).total() == 7

    def test_while_tables_are_made_the_caller_can_serve_others(self) -> None:
        forwarding, rests = Forwarding(), []
        less = replace(VIEW, hosts=dict(list(VIEW.hosts.items())[:-1]))
        forwarding.tables(less, TREE, rest=lambda: rests.append(4))
        forwarding.tables(less, TREE, rest=lambda: rests.append(0))
        assert rests == [4] * 4, "for each table that is made, and for none that stays"

    def test_a_host_has_rules_only_on_its_way_to_the_root(self) -> None:
        host = mac(PortRef(3, 1))
        named = {dpid for dpid, table in tables(VIEW, TREE).items() for key in table.flows if key.match.eth_dst == host}
        assert named == {1, 2, 3}, "s4 is below s3"

    def test_nothing_passes_a_link_off_the_tree(self) -> None:
        blocked = RING[3]
        for end in blocked:
            verdict = push(tables(VIEW, TREE)[end.dpid], end.number, Frame(STRANGER, BROADCAST))
            assert verdict.ports == frozenset()
            assert verdict.cause is Cause.BLOCKED_PORT

    def test_lldp_reaches_the_controller_even_from_a_blocked_port_and_is_not_forwarded(self) -> None:
        end = RING[3].a
        verdict = push(tables(VIEW, TREE)[end.dpid], end.number, Frame(STRANGER, LLDP_MAC, ETH_LLDP))
        assert verdict.copied
        assert verdict.ports == frozenset()

    def test_link_local_frames_are_not_forwarded(self) -> None:
        pause = Frame(mac(PortRef(1, 1)), "01:80:c2:00:00:01", 0x8808)
        assert not network().send(PortRef(1, 1), pause)

    def test_an_unknown_source_is_told_to_the_controller_and_its_frame_goes_on(self) -> None:
        verdict = push(tables(VIEW, TREE)[1], 1, Frame(STRANGER, BROADCAST))
        assert verdict.copied
        assert verdict.ports

    def test_a_known_source_is_not_told_again(self) -> None:
        assert not push(tables(VIEW, TREE)[1], 1, Frame(mac(PortRef(1, 1)), BROADCAST)).copied

    def test_a_known_source_at_another_port_is_told(self) -> None:
        assert push(tables(VIEW, TREE)[1], 2, Frame(mac(PortRef(1, 1)), BROADCAST)).copied

    def test_arp_is_told_only_with_a_new_sender_address(self) -> None:
        table, source = tables(VIEW, TREE)[1], mac(PortRef(1, 1))
        assert not push(table, 1, Frame(source, BROADCAST, ETH_ARP, "10.0.1.1")).copied
        assert push(table, 1, Frame(source, BROADCAST, ETH_ARP, "10.9.9.9")).copied

    def test_of_a_muted_port_nothing_is_told_and_everything_is_forwarded(self) -> None:
        at = PortRef(1, 1)
        told, muted = tables(VIEW, TREE)[1], tables(replace(VIEW, muted=frozenset({at}), deaf=frozenset({at})), TREE)[1]
        frames = [
            Frame(STRANGER, BROADCAST),
            Frame(mac(at), BROADCAST, ETH_ARP, "10.9.9.9"),
            Frame(mac(at), LLDP_MAC, ETH_LLDP),
            Frame(mac(at), mac(PortRef(3, 1))),
        ]
        for frame in frames:
            before, after = push(told, at.number, frame), push(muted, at.number, frame)
            assert after.ports == before.ports
            assert not after.copied
        assert [push(told, at.number, frame).copied for frame in frames] == [True, True, True, False]
        assert push(muted, 2, Frame(STRANGER, BROADCAST)).copied, "another port is heard"
        loud = tables(replace(VIEW, muted=frozenset({at})), TREE)[1]
        assert [push(loud, at.number, frame).copied for frame in frames] == [False, False, True, False]

    @pytest.mark.parametrize("to", [LLDP_MAC, BROADCAST, "03:42:41:54:4f:4c"])
    def test_no_lldp_is_forwarded_whatever_its_destination(self, to: str) -> None:
        verdict = push(tables(VIEW, TREE)[1], 1, Frame(STRANGER, to, ETH_LLDP))
        assert verdict.copied and not verdict.ports

    def test_of_a_host_whose_place_is_in_question_everything_is_told_even_from_a_muted_port(self) -> None:
        at = PortRef(1, 1)
        host = replace(VIEW.hosts[mac(at)], asked=True)
        for muted in (frozenset[PortRef](), frozenset({at})):
            table = tables(replace(VIEW, hosts={**VIEW.hosts, host.mac: host}, muted=muted), TREE)[1]
            for frame in (
                Frame(host.mac, mac(PortRef(3, 1))),
                Frame(host.mac, ASKING_MAC, ETH_ARP, "10.0.1.1"),
                Frame(host.mac, BROADCAST, ETH_ARP, "10.9.9.9"),
            ):
                assert push(table, at.number, frame).copied

    def test_what_answers_our_request_reaches_nobody_else(self) -> None:
        at = PortRef(1, 1)
        assert not network().send(at, Frame(mac(at), ASKING_MAC, ETH_ARP, "10.0.1.1"))

    @settings(max_examples=60, deadline=None)
    @given(data=st.data(), count=st.integers(2, 6))
    def test_any_graph_with_any_spanning_forest_has_no_storm_and_no_duplicates(
        self, data: st.DataObject, count: int
    ) -> None:
        pairs = [(a, b) for a in range(1, count + 1) for b in range(a + 1, count + 1)]
        chosen = data.draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
        links = [Link(PortRef(a, 100 + b), PortRef(b, 100 + a)) for a, b in chosen]
        weights = data.draw(st.permutations(range(len(links))))
        graph = nx.Graph()
        for link, weight in zip(links, weights, strict=True):
            graph.add_edge(link.a.dpid, link.b.dpid, weight=weight, link=link)
        forest = nx.minimum_spanning_tree(graph)
        tree = frozenset(link for _, _, link in forest.edges(data="link"))
        view = fabric(links, count)
        fake = network(view, tree, None)
        for source in view.edges:
            reach = {source.dpid} | (
                nx.node_connected_component(graph, source.dpid) if source.dpid in graph else set()
            )
            copies = fake.send(source, Frame(mac(source), BROADCAST))
            assert copies == {ref: 1 for ref in view.edges if ref.dpid in reach and ref != source}
            for target in view.edges - {source}:
                want = {target: 1} if target.dpid in reach else {}
                got = fake.send(source, Frame(mac(source), mac(target)))
                assert got == want or target.dpid not in reach


class TestTwoCoordinators:
    """The frames of each of two controllers pass by its own port only, whichever leads."""

    SECOND = "02:00:00:00:00:c1"
    SECOND_PORT = PortRef(4, 1)

    def both(self) -> FakeNetwork:
        return FakeNetwork(
            tables(VIEW, TREE, ATTACHED, [ControlAttachment("s4", "s4-eth1", self.SECOND)]), VIEW.links
        )

    def test_each_reaches_the_hosts_and_is_reached_by_them(self) -> None:
        for address, port in ((COORDINATOR, COORDINATOR_PORT), (self.SECOND, self.SECOND_PORT)):
            for host in VIEW.edges - {COORDINATOR_PORT, self.SECOND_PORT}:
                assert self.both().send(port, Frame(address, mac(host), ETH_CONTROL)) == {host: 1}
                assert self.both().send(host, Frame(mac(host), address, ETH_CONTROL)) == {port: 1}

    def test_each_hears_the_others_heartbeats(self) -> None:
        ports = {COORDINATOR: COORDINATOR_PORT, self.SECOND: self.SECOND_PORT}
        for address, port in ports.items():
            copies = self.both().send(port, Frame(address, HEARTBEAT_MAC, ETH_CONTROL))
            assert copies == {ref: 1 for ref in VIEW.edges if ref != port}

    def test_neither_is_believed_at_the_others_port(self) -> None:
        for address, port in ((COORDINATOR, self.SECOND_PORT), (self.SECOND, COORDINATOR_PORT)):
            assert not self.both().send(port, Frame(address, HEARTBEAT_MAC, ETH_CONTROL))


class TestControlEtherType:
    """Control frames pass between host ports and the coordinator's port, and nowhere else."""

    def test_a_host_reaches_the_coordinator_and_only_it(self) -> None:
        for source in VIEW.edges - {COORDINATOR_PORT}:
            frame = Frame(mac(source), COORDINATOR, ETH_CONTROL)
            assert network().send(source, frame) == {COORDINATOR_PORT: 1}

    def test_the_coordinator_reaches_a_host_and_only_it(self) -> None:
        for target in VIEW.edges - {COORDINATOR_PORT}:
            frame = Frame(COORDINATOR, mac(target), ETH_CONTROL)
            assert network().send(COORDINATOR_PORT, frame) == {target: 1}

    def test_a_heartbeat_reaches_every_host_port_exactly_once(self) -> None:
        copies = network().send(COORDINATOR_PORT, Frame(COORDINATOR, HEARTBEAT_MAC, ETH_CONTROL))
        assert copies == {ref: 1 for ref in VIEW.edges if ref != COORDINATOR_PORT}

    def test_no_host_reaches_a_host(self) -> None:
        for source in VIEW.edges - {COORDINATOR_PORT}:
            for target in (*map(mac, VIEW.edges), HEARTBEAT_MAC, BROADCAST, STRANGER):
                assert not network().send(source, Frame(mac(source), target, ETH_CONTROL))

    def test_another_sender_at_the_coordinators_port_reaches_nobody(self) -> None:
        for target in (mac(PortRef(1, 1)), HEARTBEAT_MAC):
            assert not network().send(COORDINATOR_PORT, Frame(STRANGER, target, ETH_CONTROL))

    @pytest.mark.parametrize("kind", [ETH_CONTROL, 0x0800, ETH_ARP])
    @pytest.mark.parametrize("target", [HEARTBEAT_MAC, BROADCAST, mac(PortRef(3, 1)), COORDINATOR])
    def test_the_coordinators_address_is_not_believed_at_any_other_host_port(
        self, kind: int, target: str
    ) -> None:
        for source in VIEW.edges - {COORDINATOR_PORT}:
            verdict = push(network().tables[source.dpid], source.number, Frame(COORDINATOR, target, kind))
            assert verdict.ports == frozenset()
            assert verdict.cause is Cause.FORGED_COORDINATOR
            assert not verdict.copied

    def test_the_coordinators_address_is_believed_only_from_the_trees_side_towards_it(self) -> None:
        # s1 - s2(coordinator) - s3 - s4: at s3, port LEFT is towards s2 and port RIGHT is away from it
        frame = Frame(COORDINATOR, HEARTBEAT_MAC, ETH_CONTROL)
        assert push(network().tables[3], LEFT, frame).ports
        assert push(network().tables[3], RIGHT, frame).cause is Cause.FORGED_COORDINATOR

    def test_the_coordinator_sends_to_no_group_but_the_heartbeats(self) -> None:
        assert not network().send(COORDINATOR_PORT, Frame(COORDINATOR, BROADCAST, ETH_CONTROL))

    def test_the_coordinators_host_may_use_the_network_as_any_other(self) -> None:
        copies = network().send(COORDINATOR_PORT, Frame(COORDINATOR, BROADCAST, ETH_ARP, "10.0.2.2"))
        assert copies.total() == 7

    def test_a_member_is_made_known_by_its_first_control_frame(self) -> None:
        source = PortRef(1, 1)
        verdict = push(network().tables[1], 1, Frame(mac(source), COORDINATOR, ETH_CONTROL))
        assert verdict.copied

    @pytest.mark.parametrize(
        "attachment", [None, ControlAttachment("s2", "s2-eth2"), ControlAttachment("s9", "1", COORDINATOR)]
    )
    def test_with_no_coordinator_no_control_frame_passes(self, attachment: ControlAttachment | None) -> None:
        for source in VIEW.edges:
            for target in (COORDINATOR, HEARTBEAT_MAC, mac(PortRef(3, 1))):
                assert not network(attachment=attachment).send(
                    source, Frame(mac(source), target, ETH_CONTROL)
                )

    def test_the_attachment_is_found_by_name_or_number(self) -> None:
        for text in ("s2:s2-eth2", "2:2", "0000000000000002:2", "s2:2"):
            assert ControlAttachment.parse(text, COORDINATOR).locate(VIEW) == COORDINATOR_PORT

    @pytest.mark.parametrize("text", ["", "s2", "s2:", ":1"])
    def test_a_malformed_attachment_is_refused_with_the_form_to_use(self, text: str) -> None:
        with pytest.raises(ValueError, match="SWITCH:PORT"):
            ControlAttachment.parse(text)


class TestTransition:
    """From one tree to another without a loop, and without touching what stays."""

    def test_nothing_is_sent_when_nothing_changes(self) -> None:
        installed = tables(VIEW, TREE, ATTACHED)
        step = transition(installed, tables(VIEW, TREE, ATTACHED), VIEW)
        assert not step.close
        assert not step.open

    def test_one_more_host_adds_entries_and_removes_none(self) -> None:
        before = tables(VIEW, TREE)
        more = View(
            VIEW.switches, VIEW.links, VIEW.edges, {**VIEW.hosts, STRANGER: Host(STRANGER, PortRef(1, 1))}
        )
        step = transition(before, tables(more, TREE), VIEW)
        assert not step.close
        for change in step.open.values():
            assert not change.remove
            assert not change.groups
            assert all(STRANGER in (flow.match.eth_src, flow.match.eth_dst) for flow in change.put)

    @pytest.mark.parametrize("gone", range(3))
    def test_between_two_trees_there_is_never_a_loop_whatever_the_order_of_switches(self, gone: int) -> None:
        other = frozenset(RING) - {RING[gone]}
        old, new = tables(VIEW, TREE), tables(VIEW, other)
        step = transition(old, new, VIEW)
        assert set(step.close) == {end.dpid for end in RING[gone]}
        closed = {dpid: applied(old[dpid], step.close.get(dpid)) for dpid in old}
        stages = [dict(old)]
        for dpid in step.close:
            stages.append({**stages[-1], dpid: closed[dpid]})
        for order in ([1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]):
            state = dict(closed)
            for dpid in order:
                state = {**state, dpid: applied(state[dpid], step.open.get(dpid))}
                stages.append(state)
            assert state == new
        for state in stages:
            for source in VIEW.edges:
                copies = FakeNetwork(state, VIEW.links).send(source, Frame(mac(source), BROADCAST))
                assert max(copies.values(), default=0) <= 1

    def test_a_link_that_went_down_is_not_waited_for(self) -> None:
        lost = RING[0]
        ports = {
            dpid: Switch(
                dpid, s.name, {n: Port(n, p.name, PortRef(dpid, n) not in lost) for n, p in s.ports.items()}
            )
            for dpid, s in VIEW.switches.items()
        }
        view = View(ports, tuple(RING[1:]), VIEW.edges, VIEW.hosts)
        step = transition(tables(VIEW, TREE), tables(view, frozenset(RING[1:])), view)
        assert not step.close
        assert step.open


def applied(table: Table, change: object) -> Table:
    """The table after a change, as a switch would carry it out."""
    if change is None:
        return table
    result = Table(dict(table.flows), {**table.groups, **change.groups})  # type: ignore[attr-defined]  # a Change
    for key in change.remove:  # type: ignore[attr-defined]  # as above
        del result.flows[key]
    result.add(*change.put)  # type: ignore[attr-defined]  # as above
    return result


def test_a_diff_applied_gives_the_new_table() -> None:
    old, new = tables(VIEW, TREE, ATTACHED), tables(VIEW, frozenset(RING[1:]), None)
    for dpid in old:
        assert applied(old[dpid], diff(old[dpid], new[dpid])) == new[dpid]


class TestControlQueue:
    """Where a switch has the queue of control frames, they leave by it, and nothing else does."""

    FRAMES = (
        (PortRef(1, 1), Frame(mac(PortRef(1, 1)), COORDINATOR, ETH_CONTROL)),
        (COORDINATOR_PORT, Frame(COORDINATOR, HEARTBEAT_MAC, ETH_CONTROL)),
        (COORDINATOR_PORT, Frame(COORDINATOR, mac(PortRef(2, 1)), ETH_CONTROL)),
    )

    def test_control_frames_leave_by_it(self) -> None:
        queued = tables(VIEW, TREE, ATTACHED, queued={1, 2})
        assert [push(queued[at.dpid], at.number, frame).queue for at, frame in self.FRAMES] == [CONTROL_QUEUE] * 3

    def test_data_do_not_whoever_sends_them(self) -> None:
        queued = tables(VIEW, TREE, ATTACHED, queued={1, 2})
        for at, source in ((PortRef(1, 1), mac(PortRef(1, 1))), (COORDINATOR_PORT, COORDINATOR)):
            assert push(queued[at.dpid], at.number, Frame(source, BROADCAST)).queue is None

    def test_frames_go_where_they_go_without_it(self) -> None:
        queued, plain = tables(VIEW, TREE, ATTACHED, queued={1, 2, 3, 4}), tables(VIEW, TREE, ATTACHED)
        for at, frame in self.FRAMES:
            assert FakeNetwork(queued, VIEW.links).send(at, frame) == FakeNetwork(plain, VIEW.links).send(at, frame)

    def test_a_switch_without_it_is_told_of_none(self) -> None:
        assert all(flow.queue is None for flow in tables(VIEW, TREE, ATTACHED, queued={2})[1].flows.values())
