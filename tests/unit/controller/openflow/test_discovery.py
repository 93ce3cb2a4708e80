"""What is believed of switches, ports, links and hosts, and when."""

from __future__ import annotations

from collections import Counter

from controller.openflow.discovery import ANNOUNCED_AT_ONCE, HOSTS_LONG_NS, LINK_SILENCE_NS, Discovery
from controller.openflow.intake.bridges import LOOP_HOLD_NS, LOOP_NS
from controller.openflow.intake.frame_budgets import FRAMES_AT_ONCE, LLDP_AT_ONCE, MUTE_NS
from controller.openflow.intake.hosts import MOVE_NS, PortRef
from controller.openflow.intake.lldp import Doubt
from controller.openflow.intake.ports import PROBE_NS
from controller.openflow.tables.forwarding import HEARTBEAT_MAC
from controller.openflow.view import Link, Port
from protocol.units import MILLISECOND_NS

HOST = "02:00:00:00:99:99"
OTHER = "02:00:00:00:00:c0"


def pass_time(discovery: Discovery, begin_ns: int, end_ns: int) -> None:
    """Where the switches get their tables, and answer, at once."""
    for now_ns in range(begin_ns, end_ns + 1, 50 * MILLISECOND_NS):
        discovery.applied(now_ns)
        for dpid in discovery.in_question():
            discovery.read_until(dpid, now_ns)
        discovery.tick(now_ns)


class TestDiscovery:
    """Events go in, and the view changes when it may."""

    A, B = PortRef(1, 10), PortRef(2, 11)

    def pair(self) -> Discovery:
        """Two switches that came up at time 0, with a host port and a trunk each, probed but not yet
        heard.
        """
        discovery = Discovery()
        discovery.switch_up(1, "s1", [Port(1, "s1-eth1", True), Port(10, "s1-eth10", True)], 0)
        discovery.switch_up(2, "s2", [Port(1, "s2-eth1", True), Port(11, "s2-eth11", True)], 0)
        return discovery

    def joined(self) -> Discovery:
        discovery = self.pair()
        discovery.lldp_heard(self.A, self.B, 5 * MILLISECOND_NS)
        discovery.lldp_heard(self.B, self.A, 6 * MILLISECOND_NS)
        discovery.tick(PROBE_NS)
        return discovery

    def test_time_alone_changes_nothing_once_all_is_probed_unless_there_are_links(self) -> None:
        discovery = self.pair()
        assert not discovery.calm()
        discovery.tick(PROBE_NS)
        assert discovery.calm()
        discovery.port_changed(1, Port(2, "s1-eth2", True), PROBE_NS)
        assert not discovery.calm()
        assert not self.joined().calm()

    def test_of_two_ports_that_a_bridge_joins_the_higher_one_is_closed_as_long_as_it_does(self) -> None:
        discovery, low, high = self.joined(), PortRef(1, 1), PortRef(2, 1)
        assert discovery.view(PROBE_NS).edges == {low, high}
        discovery.frame_seen(high, HOST, PROBE_NS)
        for source, at in ((low, high), (high, low)):
            discovery.loop_heard(source, at, PROBE_NS)
        view = discovery.view(PROBE_NS)
        assert view.edges == {low} and not view.hosts and not discovery.calm()
        assert [note.kind for note in discovery.drain_notes()][-1] == "loop"
        discovery.loop_heard(low, high, 2 * LOOP_NS)
        end_ns = 2 * LOOP_NS + LOOP_HOLD_NS
        assert discovery.view(end_ns - 1).edges == {low}
        revision = discovery.revision
        discovery.tick(end_ns)
        assert discovery.revision > revision and discovery.view(end_ns).edges == {low, high}

    def test_a_bridge_that_joins_what_nothing_else_joins_is_no_loop_and_nor_is_a_cable(self) -> None:
        apart, joined = self.pair(), self.joined()
        apart.loop_heard(PortRef(1, 1), PortRef(2, 1), PROBE_NS)
        assert PortRef(2, 1) in apart.view(PROBE_NS).edges
        joined.loop_heard(self.A, self.B, PROBE_NS)  # the ends of their link
        joined.loop_heard(self.A, PortRef(2, 1), PROBE_NS)
        joined.loop_heard(PortRef(2, 1), PortRef(2, 1), PROBE_NS)  # sent back by a host
        assert joined.view(PROBE_NS).edges == {PortRef(1, 1), PortRef(2, 1)} and joined.view(PROBE_NS).links

    def apart(self, *ports: PortRef) -> Discovery:
        """Switches that no LLDP joins, whose ports are all probed."""
        discovery = Discovery()
        for dpid in sorted({ref.dpid for ref in ports}):
            numbers = [ref.number for ref in ports if ref.dpid == dpid]
            discovery.switch_up(dpid, f"s{dpid}", [Port(number, f"eth{number}", True) for number in numbers], 0)
        discovery.tick(PROBE_NS)
        return discovery

    def hear(self, discovery: Discovery, now_ns: int, *segments: tuple[PortRef, ...]) -> set[PortRef]:
        """Each port's probe comes in by all others of its segment; the ports that are closed then."""
        discovery.tick(now_ns)
        everyone = {ref for segment in segments for ref in segment}
        for segment in segments:
            for source in segment:
                for at in segment:
                    discovery.loop_heard(source, at, now_ns)
        return everyone - discovery.view(now_ns).edges

    def test_of_two_bridges_that_alone_join_two_switches_one_is_closed_and_opened_again_without_the_other(self) -> None:
        first, second = (PortRef(1, 1), PortRef(2, 1)), (PortRef(1, 2), PortRef(2, 2))
        discovery = self.apart(*first, *second)
        times = range(PROBE_NS, 10 * LOOP_NS, LOOP_NS)
        assert [self.hear(discovery, now_ns, first, second) for now_ns in times] == [{PortRef(2, 2)}] * len(times)
        times = range(10 * LOOP_NS, 30 * LOOP_NS, LOOP_NS)
        closed = [self.hear(discovery, now_ns, second) for now_ns in times]
        assert closed[0] and not closed[-1]

    def test_a_bridge_that_joins_three_switches_by_a_port_each_is_no_loop(self) -> None:
        star = PortRef(1, 1), PortRef(2, 1), PortRef(3, 1)
        discovery = self.apart(*star)
        assert not any(self.hear(discovery, now_ns, star) for now_ns in range(PROBE_NS, 10 * LOOP_NS, LOOP_NS))

    def test_bridges_that_join_three_switches_in_a_ring_are_cut_once(self) -> None:
        ring = (PortRef(1, 1), PortRef(2, 2)), (PortRef(2, 1), PortRef(3, 2)), (PortRef(1, 2), PortRef(3, 1))
        discovery = self.apart(*(ref for pair in ring for ref in pair))
        closed = [self.hear(discovery, now_ns, *ring) for now_ns in range(PROBE_NS, 10 * LOOP_NS, LOOP_NS)]
        assert all(ports == closed[0] for ports in closed) and len(closed[0]) == 1

    def test_a_bridged_port_that_goes_down_joins_nothing_any_more(self) -> None:
        first, second = (PortRef(1, 1), PortRef(2, 1)), (PortRef(1, 2), PortRef(2, 2))
        discovery = self.apart(*first, *second)
        self.hear(discovery, PROBE_NS, first)
        discovery.port_changed(1, Port(1, "eth1", False), PROBE_NS + 1)
        assert not self.hear(discovery, PROBE_NS + 2, second)

    def test_two_ports_of_one_switch_are_joined_already(self) -> None:
        discovery = Discovery()
        discovery.switch_up(1, "s1", [Port(1, "a", True), Port(2, "b", True)], 0)
        discovery.loop_heard(PortRef(1, 1), PortRef(1, 2), 5)  # before either is open
        discovery.tick(PROBE_NS)
        assert discovery.view(PROBE_NS).edges == {PortRef(1, 1)}

    def test_loops_are_looked_for_at_ports_without_a_neighbour_and_not_with_each_lldp(self) -> None:
        discovery = self.joined()
        ports = [PortRef(1, 1), self.A, PortRef(9, 9)]
        assert discovery.seeking_loops(ports, PROBE_NS - 1) == discovery.seeking_loops(ports, PROBE_NS - 1) == {PortRef(1, 1)}
        assert not discovery.seeking_loops(ports, PROBE_NS + 1)
        assert discovery.seeking_loops(ports, PROBE_NS + LOOP_NS) == {PortRef(1, 1)}

    def test_a_port_that_is_muted_for_its_frames_is_still_heard_when_it_tells_of_a_loop(self) -> None:
        discovery, at = self.pair(), PortRef(1, 1)
        discovery.tick(PROBE_NS)
        while discovery.admits(at, False, PROBE_NS):
            pass
        assert discovery.admits(at, True, PROBE_NS) and not discovery.admits(at, False, PROBE_NS)
        view = discovery.view(PROBE_NS)
        assert view.muted == {at} and not view.deaf
        while discovery.admits(at, True, PROBE_NS):
            pass
        assert discovery.view(PROBE_NS).deaf == {at}

    def test_a_muted_port_and_a_host_in_question_are_in_times_hands(self) -> None:
        discovery, at = self.pair(), PortRef(1, 1)
        discovery.tick(PROBE_NS)
        for _ in range(2 * FRAMES_AT_ONCE):
            discovery.admits(at, False, PROBE_NS)
        assert not discovery.calm()
        discovery.tick(PROBE_NS + MUTE_NS)
        assert discovery.calm()
        for place in (at, PortRef(2, 1)):
            discovery.frame_seen(place, "02:00:00:00:00:01", PROBE_NS + MUTE_NS)
        assert not discovery.calm()

    def test_where_lldp_is_sent_seldom_a_link_may_be_silent_for_longer(self) -> None:
        for lldp_ns, silence_ns in ((0, LINK_SILENCE_NS), (500 * MILLISECOND_NS, LINK_SILENCE_NS), (10**10, 6 * 10**10)):
            discovery = Discovery(lldp_ns=lldp_ns)
            discovery.switch_up(1, "s1", [Port(10, "s1-eth10", True)], 0)
            discovery.switch_up(2, "s2", [Port(11, "s2-eth11", True)], 0)
            for one, other in ((self.A, self.B), (self.B, self.A)):
                discovery.lldp_heard(one, other, 0)
            pass_time(discovery, 0, silence_ns - 50 * MILLISECOND_NS)
            assert discovery.view(silence_ns).links
            pass_time(discovery, silence_ns, silence_ns)
            assert not discovery.view(silence_ns).links

    def test_a_switch_takes_no_part_before_its_ports_are_probed(self) -> None:
        assert not self.pair().view(PROBE_NS - 1).switches
        assert set(self.pair().view(PROBE_NS).switches) == {1, 2}

    def test_the_end_of_probing_is_a_change(self) -> None:
        discovery = self.pair()
        before = discovery.revision
        discovery.tick(PROBE_NS - 1)
        assert discovery.revision == before
        discovery.tick(PROBE_NS)
        assert discovery.revision > before

    def test_a_switch_that_connects_again_before_its_old_connection_has_ended_is_probed_anew(self) -> None:
        """Its cables may have been moved meanwhile: nobody told us of a port that went down and came up again."""
        discovery, later_ns = self.joined(), PROBE_NS + 1
        discovery.frame_seen(PortRef(1, 1), HOST, PROBE_NS)
        ports = [Port(1, "s1-eth1", True), Port(10, "s1-eth10", True)]
        discovery.switch_up(1, "s1", ports, later_ns)
        assert PortRef(1, 10) in discovery.probing(later_ns) and PortRef(1, 1) in discovery.probing(later_ns)
        view = discovery.view(later_ns)
        assert 1 not in view.switches and not view.links and not view.hosts
        view = discovery.view(later_ns + PROBE_NS)
        assert {PortRef(1, 1), PortRef(1, 10)} <= view.edges, "a trunk without LLDP since then is open to hosts"
        assert view.switches[1].name == "s1"

    def test_a_link_heard_both_ways_is_a_link_and_its_ends_are_no_edges(self) -> None:
        view = self.joined().view(PROBE_NS)
        assert view.links == (Link(self.A, self.B),)
        assert view.edges == {PortRef(1, 1), PortRef(2, 1)}

    def test_a_link_heard_one_way_is_no_link_and_closes_only_the_end_that_heard(self) -> None:
        """One closed end is enough against a loop."""
        discovery = self.pair()
        discovery.lldp_heard(self.A, self.B, 0)
        view = discovery.view(PROBE_NS)
        assert not view.links
        assert view.edges == {PortRef(1, 1), PortRef(2, 1), self.A}

    def test_no_frame_from_one_port_closes_another(self) -> None:
        """Ten ports that a host names, by LLDP that it might have from accomplices: all stay open to hosts."""
        discovery = Discovery()
        discovery.switch_up(1, "s1", [Port(number, f"s1-eth{number}", True) for number in range(1, 12)], 0)
        named = [PortRef(1, number) for number in range(2, 12)]
        for source in named:
            discovery.frame_seen(source, f"02:00:00:00:00:{source.number:02x}", PROBE_NS)
        for source in named:
            discovery.lldp_heard(source, PortRef(1, 1), PROBE_NS)
        view = discovery.view(PROBE_NS)
        assert view.edges == set(named)
        assert len(view.hosts) == 10

    def test_lldp_that_is_not_believed_changes_nothing_and_is_told_once_a_minute(self) -> None:
        discovery, at = self.joined(), PortRef(1, 1)
        discovery.drain_notes()
        before = discovery.view(PROBE_NS)
        for now_ns in range(PROBE_NS, PROBE_NS + 59_000 * MILLISECOND_NS, 1_000 * MILLISECOND_NS):
            for why in Doubt:
                discovery.lldp_doubted(at, why, now_ns)
        assert discovery.view(PROBE_NS) == before
        told = [(note.kind, note.severity) for note in discovery.drain_notes()]
        assert sorted(told) == [("lldp_foreign", "info"), ("lldp_forged", "warning"), ("lldp_old", "warning")]
        assert discovery.counts["lldp_forged"] == 59

    def test_lldp_of_another_controller_at_a_link_is_not_worth_an_event(self) -> None:
        discovery = self.joined()
        discovery.drain_notes()
        discovery.lldp_doubted(self.A, Doubt.FORGED, PROBE_NS)
        assert not discovery.drain_notes() and not discovery.counts["lldp_forged"]

    def test_a_port_that_hears_itself_stays_open_and_is_told(self) -> None:
        discovery, at = self.joined(), PortRef(1, 1)
        discovery.lldp_heard(at, at, PROBE_NS)
        assert at in discovery.view(PROBE_NS).edges
        assert "lldp_reflected" in [note.kind for note in discovery.drain_notes()]

    def test_two_hosts_that_pass_lldp_to_each_other_make_no_link_where_the_file_has_hosts(self) -> None:
        discovery = Discovery(host_ports={("s1", "s1-eth1"), ("s2", "s2-eth1")})
        for dpid in (1, 2):
            discovery.switch_up(dpid, f"s{dpid}", [Port(1, f"s{dpid}-eth1", True)], 0)
        one, other = PortRef(1, 1), PortRef(2, 1)
        discovery.lldp_heard(one, other, 0)
        discovery.lldp_heard(other, one, 0)
        view = discovery.view(PROBE_NS)
        assert not view.links and not view.edges, "it may be a cable, and a loop"
        assert [note.kind for note in discovery.drain_notes()].count("lldp_at_host") == 2

    def test_a_link_may_come_up_where_hosts_were_learnt(self) -> None:
        """The neighbour connects to the controller later than this switch, and flooded hosts' frames meanwhile."""
        discovery = Discovery()
        discovery.switch_up(1, "s1", [Port(10, "s1-eth10", True)], 0)
        discovery.frame_seen(self.A, HOST, PROBE_NS)
        assert discovery.view(PROBE_NS).hosts
        discovery.switch_up(2, "s2", [Port(11, "s2-eth11", True)], PROBE_NS)
        discovery.lldp_heard(self.A, self.B, PROBE_NS)
        discovery.lldp_heard(self.B, self.A, PROBE_NS)
        view = discovery.view(2 * PROBE_NS)
        assert view.links == (Link(self.A, self.B),)
        assert not view.hosts and not view.edges

    def test_a_link_where_hosts_have_been_for_long_is_told(self) -> None:
        """They may pass LLDP on to each other: without a file of hosts nothing shows that it is no cable."""
        for lasted_ns, expected in ((HOSTS_LONG_NS - 1, 0), (HOSTS_LONG_NS, 2)):
            discovery, one, other = self.joined(), PortRef(1, 1), PortRef(2, 1)
            discovery.frame_seen(one, HOST, PROBE_NS)
            discovery.frame_seen(other, OTHER, PROBE_NS)
            discovery.lldp_heard(one, other, lasted_ns)
            discovery.lldp_heard(other, one, lasted_ns)
            assert [note.kind for note in discovery.drain_notes()].count("link_at_hosts") == expected
            assert discovery.view(lasted_ns).links == (Link(one, other), Link(self.A, self.B))

    def test_two_hosts_that_pose_as_a_cable_close_only_their_own_ports_when_they_cease(self) -> None:
        """So they make no loop: what was a link is not open to hosts before it has been down."""
        discovery, one, other = self.joined(), PortRef(1, 1), PortRef(2, 1)
        for source, at in ((one, other), (other, one)):
            discovery.lldp_heard(source, at, PROBE_NS)
        for now_ns in range(PROBE_NS, PROBE_NS + 2 * LINK_SILENCE_NS, 50 * MILLISECOND_NS):
            discovery.lldp_heard(self.A, self.B, now_ns)
            discovery.lldp_heard(self.B, self.A, now_ns)
            discovery.tick(now_ns)
        view = discovery.view(PROBE_NS + 2 * LINK_SILENCE_NS)
        assert view.links == (Link(self.A, self.B),) and not view.edges & {one, other}

    def test_every_port_that_is_up_sends_lldp_twice_a_second_and_none_starves(self) -> None:
        discovery = Discovery()
        discovery.switch_up(1, "s1", [Port(number, f"p{number}", number != 3) for number in range(600)], 0)
        sent: Counter[PortRef] = Counter()
        for now_ns in range(0, 3_000 * MILLISECOND_NS, 100 * MILLISECOND_NS):
            due = discovery.announcing(now_ns)
            assert len(due) <= ANNOUNCED_AT_ONCE
            sent.update(due)
        assert PortRef(1, 3) not in sent
        assert len(sent) == 599 and set(sent.values()) == {6}

    def test_a_port_that_floods_the_controller_is_muted_for_a_while(self) -> None:
        discovery, at = self.joined(), PortRef(1, 1)
        taken = sum(discovery.admits(at, False, PROBE_NS) for _ in range(5_000))
        assert taken == FRAMES_AT_ONCE
        assert discovery.view(PROBE_NS).muted == {at}
        assert at in discovery.view(PROBE_NS).edges, "its frames are forwarded as ever"
        assert discovery.admits(PortRef(2, 1), False, PROBE_NS)
        assert "port_muted" in [note.kind for note in discovery.drain_notes()]
        discovery.tick(PROBE_NS + MUTE_NS)
        assert not discovery.view(PROBE_NS).muted
        assert discovery.admits(at, False, PROBE_NS + MUTE_NS)

    def test_lldp_has_a_budget_of_its_own_and_a_link_is_never_muted(self) -> None:
        discovery, at = self.joined(), PortRef(1, 1)
        assert sum(discovery.admits(at, True, PROBE_NS) for _ in range(5_000)) == LLDP_AT_ONCE
        assert discovery.view(PROBE_NS).deaf == {at}
        assert sum(discovery.admits(self.A, True, PROBE_NS) for _ in range(5_000)) == LLDP_AT_ONCE
        assert self.A not in discovery.view(PROBE_NS).deaf

    def test_no_host_leaves_a_switch_that_passes_on_as_much_as_its_meter_lets_through(self) -> None:
        discovery, old, new, noisy = self.joined(), PortRef(1, 1), PortRef(2, 1), PortRef(1, 7)
        discovery.frame_seen(old, HOST, PROBE_NS)
        discovery.frame_seen(new, HOST, PROBE_NS)
        now_ns = PROBE_NS
        while now_ns < PROBE_NS + 6 * MOVE_NS:
            for _ in range(22):  # 440 a second: the switch may drop what the host answers
                discovery.admits(noisy, False, now_ns)
            pass_time(discovery, now_ns, now_ns)
            now_ns += 50 * MILLISECOND_NS
        assert discovery.view(now_ns).hosts[HOST].at == old
        pass_time(discovery, now_ns, now_ns + MOVE_NS)
        assert discovery.view(now_ns).hosts[HOST].at == new

    def test_a_cable_between_two_ports_of_a_switch_closes_both(self) -> None:
        discovery = self.pair()
        one, other = PortRef(1, 1), PortRef(1, 10)
        discovery.lldp_heard(one, other, 0)
        discovery.lldp_heard(other, one, 0)
        view = discovery.view(PROBE_NS)
        assert not view.links
        assert not {one, other} & view.edges

    def test_a_port_going_down_ends_its_link_at_once(self) -> None:
        discovery = self.joined()
        discovery.port_changed(1, Port(10, "s1-eth10", False), PROBE_NS)
        assert not discovery.view(PROBE_NS).links

    def test_a_late_lldp_does_not_bring_back_a_link_whose_port_is_down(self) -> None:
        discovery = self.joined()
        discovery.port_changed(1, Port(10, "s1-eth10", False), PROBE_NS)
        discovery.lldp_heard(self.A, self.B, PROBE_NS)
        discovery.lldp_heard(self.B, self.A, PROBE_NS)
        assert not discovery.view(PROBE_NS).links

    def test_a_port_that_comes_up_is_probed_before_it_is_opened_to_hosts(self) -> None:
        discovery = self.joined()
        for up in (False, True):
            discovery.port_changed(1, Port(1, "s1-eth1", up), PROBE_NS)
        assert PortRef(1, 1) not in discovery.view(PROBE_NS).edges
        assert discovery.probing(PROBE_NS) == [PortRef(1, 1)]
        assert PortRef(1, 1) in discovery.view(2 * PROBE_NS).edges

    def test_a_trunk_whose_neighbour_left_stays_closed(self) -> None:
        discovery = self.joined()
        discovery.switch_down(2)
        view = discovery.view(PROBE_NS)
        assert not view.links
        assert self.A not in view.edges

    def test_a_silent_link_ends_but_one_that_still_brings_frames_does_not(self) -> None:
        discovery, late = self.joined(), 4_000 * MILLISECOND_NS
        for end in (self.A, self.B):
            discovery.frames_received(end, 7, late - MILLISECOND_NS)
        pass_time(discovery, PROBE_NS, late)
        assert discovery.view(late).links
        pass_time(discovery, late, 2 * late)
        view = discovery.view(2 * late)
        assert not view.links
        assert self.A not in view.edges

    def test_lldp_is_sent_again_by_a_port_that_its_neighbour_has_not_heard_for_long(self) -> None:
        discovery, late = self.joined(), LINK_SILENCE_NS * 2 // 3
        discovery.lldp_heard(self.A, self.B, late)
        assert discovery.probing(late) == [self.B]
        discovery.lldp_heard(self.B, self.A, late)
        assert discovery.probing(late) == []

    def test_what_we_were_not_there_to_hear_ends_no_link(self) -> None:
        discovery = self.joined()
        discovery.tick(PROBE_NS)
        back = PROBE_NS + 2 * LINK_SILENCE_NS
        discovery.tick(back)
        assert discovery.view(back).links
        pass_time(discovery, back, back + LINK_SILENCE_NS)
        assert not discovery.view(back + LINK_SILENCE_NS).links

    def test_a_host_is_learned_with_its_addresses_only_at_an_edge(self) -> None:
        discovery = self.joined()
        at = PortRef(1, 1)
        discovery.frame_seen(at, HOST, PROBE_NS, "10.0.0.1")
        discovery.frame_seen(at, HOST, PROBE_NS, "10.0.0.2")
        discovery.frame_seen(self.A, OTHER, PROBE_NS)
        hosts = discovery.view(PROBE_NS).hosts
        assert set(hosts) == {HOST}
        assert hosts[HOST].addresses == ("10.0.0.1", "10.0.0.2")

    def test_an_address_belongs_to_the_host_that_used_it_last(self) -> None:
        discovery = self.joined()
        discovery.frame_seen(PortRef(1, 1), HOST, PROBE_NS, "10.0.0.1")
        discovery.frame_seen(PortRef(2, 1), OTHER, PROBE_NS, "10.0.0.1")
        hosts = discovery.view(PROBE_NS).hosts
        assert hosts[HOST].addresses == ()
        assert hosts[OTHER].addresses == ("10.0.0.1",)

    def test_a_host_moves_once_its_old_port_is_silent(self) -> None:
        """tests/unit/controller/openflow/intake/test_hosts.py has the rules."""
        discovery, here, there = self.joined(), PortRef(1, 1), PortRef(2, 1)
        discovery.frame_seen(here, HOST, PROBE_NS, "10.0.0.1")
        discovery.frame_seen(there, HOST, 2 * PROBE_NS)
        assert discovery.view(2 * PROBE_NS).hosts[HOST].at == here
        assert [request.at for request in discovery.requests(3 * PROBE_NS)] == [here]
        before = discovery.revision
        pass_time(discovery, PROBE_NS, 2 * PROBE_NS + MOVE_NS)
        assert discovery.revision > before
        assert discovery.view(2 * PROBE_NS).hosts[HOST].at == there
        assert "host_moved" in [note.kind for note in discovery.drain_notes()]

    def test_a_port_whose_copies_are_too_many_is_not_muted_for_it_and_its_host_stays(self) -> None:
        discovery, here, there = self.joined(), PortRef(1, 1), PortRef(2, 1)
        discovery.frame_seen(here, HOST, PROBE_NS, "10.0.0.1")
        discovery.frame_seen(there, HOST, 2 * PROBE_NS)
        while discovery.admits(here, False, 2 * PROBE_NS):
            pass
        assert not discovery.view(2 * PROBE_NS).muted and not discovery.view(2 * PROBE_NS).hosts[HOST].asked
        pass_time(discovery, 2 * PROBE_NS, 4 * PROBE_NS + MOVE_NS)
        assert discovery.view(4 * PROBE_NS).hosts[HOST].at == here
        assert not discovery.admits(here, False, 2 * PROBE_NS) and discovery.view(2 * PROBE_NS).muted, "a flood all the same"

    def test_a_host_whose_port_is_down_moves_at_once(self) -> None:
        discovery, here, there = self.joined(), PortRef(1, 1), PortRef(2, 1)
        discovery.frame_seen(here, HOST, PROBE_NS)
        discovery.port_changed(1, Port(1, "s1-eth1", False), PROBE_NS)
        discovery.frame_seen(there, HOST, PROBE_NS + MILLISECOND_NS)
        assert discovery.view(PROBE_NS).hosts[HOST].at == there

    def test_an_address_that_a_router_passes_on_stays_its_hosts(self) -> None:
        discovery = self.joined()
        discovery.frame_seen(PortRef(1, 1), HOST, PROBE_NS, "10.0.0.1")
        discovery.frame_seen(PortRef(2, 1), OTHER, PROBE_NS, "10.0.0.1", claims=False)
        discovery.frame_seen(PortRef(2, 1), OTHER, PROBE_NS, "10.0.0.2", claims=False)
        hosts = discovery.view(PROBE_NS).hosts
        assert hosts[HOST].addresses == ("10.0.0.1",) and hosts[OTHER].addresses == ("10.0.0.2",)

    def test_a_group_address_is_never_a_host(self) -> None:
        discovery = self.joined()
        discovery.frame_seen(PortRef(1, 1), HEARTBEAT_MAC, PROBE_NS)
        assert not discovery.view(PROBE_NS).hosts

    def test_hosts_are_forgotten_with_their_port_their_switch_or_when_idle(self) -> None:
        for forget in (
            lambda d: d.port_changed(1, Port(1, "s1-eth1", False), PROBE_NS),
            lambda d: d.switch_down(1),
            lambda d: d.host_idle(PortRef(1, 1), HOST),
        ):
            discovery = self.joined()
            discovery.frame_seen(PortRef(1, 1), HOST, PROBE_NS)
            forget(discovery)
            assert not discovery.view(PROBE_NS).hosts
