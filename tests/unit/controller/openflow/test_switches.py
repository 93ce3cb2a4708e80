"""What the application sends to switches that keep their flows while it, or their connection, is away, as real ones do."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from ryu.ofproto import ofproto_parser, ofproto_v1_3, ofproto_v1_3_parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from bench.openflow.flows import Frame, walk
from bench.openflow.switch import ERROR, FLOW_MOD, GROUP_MOD, Switch, message
from controller.openflow.codec import MAGIC, batch, refuses_group, refuses_table
from controller.openflow.intake.entries import keep_raw
from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.messages import admits
from controller.openflow.intake.takeover import FAR_MORE, READ_NS, TAKEOVER_NS, UNHEARD_NS
from controller.openflow.roles import Claim, Role
from controller.openflow.switches import DEAF_NS, FOREIGN_NS, Switches
from controller.openflow.tables.closing import ANSWER_NS, SILENT_NS
from controller.openflow.tables.flowtable import Change, Flow, Match, Table, diff
from controller.openflow.tables.forwarding import DELIVER, FLOOD_GROUP, LEARN
from controller.openflow.tables.shortfalls import REFUSED_NS
from controller.openflow.view import View
from tests.unit.controller.openflow.fake_of_table import tables
from tests.unit.controller.openflow.tables.test_forwarding import RING, TREE, VIEW, mac

keep_raw(ofproto_v1_3_parser)
HUB = SimpleNamespace(
    Event=lambda: SimpleNamespace(clear=lambda: None, set=lambda: None, wait=lambda timeout: None), sleep=lambda _: None
)
FRAMEWORK: Any = SimpleNamespace(hub=HUB, packet=None)
DPID = 3


class Connection(ProtocolDesc):  # type: ignore[misc]  # Ryu has no types
    """One connection of a switch: what Ryu's datapath is. Answers go to `switches` at once, unless it is `mute`."""

    def __init__(self, switch: Switch, switches: Switches, mute: bool = False) -> None:
        super().__init__(version=ofproto_v1_3.OFP_VERSION)
        self.id, self.ports = switch.dpid, {}
        self._switch, self._switches, self._mute = switch, switches, mute
        self._numbers = count(1)
        self.answers: list[Any] = []
        self.is_slow = False
        self.reads = True
        self.unreplied_echo_requests: list[int] = []
        self._unread = b""
        self.send_q = SimpleNamespace(qsize=lambda: 0 if self.reads else 16)
        self.is_closed = False

    def set_xid(self, message: Any) -> None:  # noqa: ANN401 -- Ryu's message
        message.set_xid(next(self._numbers))

    def send(self, data: bytes) -> None:
        assert self.reads, "the framework would wait"
        self._unread += data
        if not self.is_slow:
            self.carry_out()

    def carry_out(self) -> None:
        """The switch carries out what it was sent."""
        told, self._unread = self._switch.feed(self._unread), b""
        while told and not self._mute:
            version, kind, length, xid = ofproto_parser.header(told)
            one, told = told[:length], told[length:]
            assert admits(one)
            if kind == ofproto_v1_3.OFPT_BARRIER_REPLY:
                self._switches.barrier_passed(self.id, xid)
            elif kind == ofproto_v1_3.OFPT_MULTIPART_REPLY:
                self.answers.append(ofproto_v1_3_parser.msg_parser(self, version, kind, length, xid, one))

    def close(self) -> None:
        self.is_closed = True

    def deliver(self) -> None:
        """What the switch has answered reaches the application."""
        told, self.answers = self.answers, []
        for each in told:
            self._switches.told(each)


class Fabric:
    """The ring of test_forwarding, of switches that keep what they are sent. Each `start` is another application."""

    def __init__(self) -> None:
        self.held = {dpid: Switch(dpid, f"s{dpid}", {}, lambda at, frame: None) for dpid in VIEW.switches}
        self.now_ns = 0
        self.start()

    def start(self, mute: tuple[int, ...] = (), away: tuple[int, ...] = ()) -> None:
        self.switches = Switches(FRAMEWORK, self.now_ns)
        for dpid, switch in self.held.items():
            if dpid not in away:
                self.connect(switch, mute=dpid in mute)

    def connect(self, switch: Switch, mute: bool = False) -> None:
        datapath = Connection(switch, self.switches, mute)
        self.switches.connected(datapath)
        self.switches.take_over(switch.dpid)
        joined = self.switches.joining(self.now_ns)
        datapath.deliver()
        for dpid in (*joined, *self.switches.joining(self.now_ns)):
            self.switches.describe(dpid)

    def after(self, ns: int) -> None:
        self.now_ns += ns
        for dpid in self.switches.joining(self.now_ns):
            self.switches.describe(dpid)
        self.switches.remove_foreign(self.now_ns)

    def converge(self, view: View = VIEW, wanted: Mapping[int, Table] | None = None) -> int:
        """Has the application send what it has to; returns how many flow mods came."""
        before = self.flow_mods
        if not self.switches.takeover.waits(view, self.now_ns):
            self.switches.converge(dict(wanted or tables(view, TREE)), view, self.now_ns)
        return self.flow_mods - before

    @property
    def flow_mods(self) -> int:
        return sum(switch.flows.sent for switch in self.held.values())

    def holds(self, view: View = VIEW) -> bool:
        wanted = tables(view, TREE)
        return all(len(switch.flows.entries) == len(wanted[dpid].flows) for dpid, switch in self.held.items())


@pytest.fixture
def fabric() -> Fabric:
    made = Fabric()
    made.converge()
    made.after(FOREIGN_NS)
    assert made.holds()
    return made


def without(*macs: str) -> View:
    return replace(VIEW, hosts={name: host for name, host in VIEW.hosts.items() if name not in macs})


def needed_by(before: Table, after: Table) -> int:
    """How many flow mods make one table of the other."""
    change = diff(before, after)
    return len(change.put) + len(change.remove)


class TestRestart:
    """Another application finds the switches as the one before has left them."""

    def test_what_a_switch_holds_already_is_not_sent_again(self, fabric: Fabric) -> None:
        sent = fabric.flow_mods
        fabric.start()
        assert fabric.converge() == 0 and fabric.flow_mods == sent

    def test_only_the_difference_is_sent(self, fabric: Fabric) -> None:
        less, sent = without(mac(PortRef(3, 1))), fabric.flow_mods
        needed = sum(map(needed_by, tables(VIEW, TREE).values(), tables(less, TREE).values()))
        fabric.start()
        fabric.converge(less)
        fabric.after(UNHEARD_NS)
        fabric.converge(less)
        assert fabric.holds(less)
        assert fabric.flow_mods - sent == needed < 15

    def test_it_knows_the_hosts_that_the_switches_know(self, fabric: Fabric) -> None:
        fabric.start()
        assert {host.mac: host for host in fabric.switches.takeover.hosts(VIEW)} == VIEW.hosts

    def test_nothing_is_sent_before_every_link_of_the_old_tree_is_known(self, fabric: Fabric) -> None:
        fabric.start()
        half = replace(VIEW, links=tuple(RING[:2]))
        assert fabric.converge(half, tables(half, frozenset(RING[:2]))) == 0
        fabric.now_ns += TAKEOVER_NS - 1
        assert fabric.converge(half, tables(half, frozenset(RING[:2]))) == 0
        fabric.now_ns += 1
        assert fabric.converge(half, tables(half, frozenset(RING[:2]))) > 0

    def test_a_link_that_went_down_meanwhile_is_not_waited_for(self, fabric: Fabric) -> None:
        fabric.start()
        down = set(RING[1])
        switches = {
            dpid: replace(
                switch,
                ports={n: replace(port, up=PortRef(dpid, n) not in down) for n, port in switch.ports.items()},
            )
            for dpid, switch in VIEW.switches.items()
        }
        view = replace(VIEW, links=(RING[0], RING[2], RING[3]), switches=switches)
        assert not fabric.switches.takeover.waits(view, fabric.now_ns)

    def test_entries_towards_hosts_not_heard_of_stay_for_a_while(self, fabric: Fabric) -> None:
        """s3 tells nothing, so its hosts are not known; the others go on sending to them."""
        fabric.start(mute=(3,))
        fabric.after(READ_NS)
        lost = without(mac(PortRef(3, 1)), mac(PortRef(3, 2)))
        assert {host.mac for host in fabric.switches.takeover.hosts(VIEW)} == lost.hosts.keys()
        fabric.converge(lost)
        target = bytes.fromhex(mac(PortRef(3, 1)).replace(":", ""))
        assert fabric.held[1].flows.knows(target, DELIVER) and not fabric.held[3].flows.knows(target, LEARN)
        fabric.after(UNHEARD_NS - 1)
        fabric.converge(lost)
        assert fabric.held[1].flows.knows(target, DELIVER)
        fabric.after(FOREIGN_NS)
        fabric.converge(lost)
        assert fabric.holds(lost)

    def test_a_host_that_fell_silent_after_it_was_told_is_not_taken_over(self, fabric: Fabric) -> None:
        fabric.start()
        fabric.switches.expired(PortRef(3, 1), mac(PortRef(3, 1)))
        assert mac(PortRef(3, 1)) not in {host.mac for host in fabric.switches.takeover.hosts(VIEW)}


class TestDoubts:
    """A switch that cannot be read, or holds more than is ours, gets its whole table, and ends with nothing else."""

    def test_one_that_does_not_answer(self, fabric: Fabric) -> None:
        fabric.start(mute=(3,))
        assert fabric.converge() == 0, "not yet"
        fabric.after(READ_NS)
        assert fabric.converge() > len(tables(VIEW, TREE)[3].flows)
        fabric.after(FOREIGN_NS)
        assert fabric.holds()

    @pytest.mark.parametrize("cookie", [0, MAGIC << 48 | 7])
    def test_one_with_a_flow_that_is_not_ours(self, fabric: Fabric, cookie: int) -> None:
        """Another program's, or one with our mark that we cannot have put: it drops by a VLAN."""
        fabric.held[DPID].flows.flow_mod(flow_mod(cookie))
        fabric.start()
        assert fabric.converge() > len(tables(VIEW, TREE)[DPID].flows)
        fabric.after(FOREIGN_NS)
        assert fabric.holds()

    def test_one_that_holds_far_more_than_it_should(self, fabric: Fabric) -> None:
        table = tables(VIEW, TREE)[DPID]
        for port in range(2 * len(table.flows) + FAR_MORE):
            made = Flow(DELIVER, 9, Match(in_port=port), output=1)
            datapath = Connection(fabric.held[DPID], fabric.switches)
            datapath.send(batch(datapath, fabric.switches.codec.change(datapath, Change({}, (), (made,)))))
        fabric.start()
        assert fabric.converge() < 2 * len(table.flows) + 4 * 48
        fabric.after(FOREIGN_NS)
        assert fabric.holds()


def flow_mod(cookie: int) -> bytes:
    """Drops frames of VLAN 5, at DELIVER."""
    match = struct.pack("!HHHBBH", 1, 10, 0x8000, 6 << 1, 2, 0x1005) + bytes(6)
    body = struct.pack("!QQBBHHHIIIH2x", cookie, 0, DELIVER, 0, 0, 0, 5, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return message(FLOW_MOD, body + match)


class TestFailures:
    """A table that could not be sent."""

    def test_it_is_sent_again_and_the_other_switches_get_theirs(self, fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
        def send(data: bytes) -> None:
            raise OSError

        lost = without(mac(PortRef(3, 1)))
        wanted = {dpid: len(table.flows) for dpid, table in tables(lost, TREE).items()}
        with monkeypatch.context() as patch:
            patch.setattr(fabric.switches.connections[min(fabric.held)], "send", send)
            with pytest.raises(OSError):
                fabric.converge(lost)
        assert [dpid for dpid, switch in fabric.held.items() if len(switch.flows.entries) != wanted[dpid]] == [min(fabric.held)]
        fabric.converge(lost)
        fabric.after(FOREIGN_NS)
        assert fabric.holds(lost)


class TestOneDatapathId:
    """Two switches that have it."""

    def ports(self, *numbers: int) -> dict[int, Any]:
        return {number: SimpleNamespace(hw_addr=f"02:00:00:00:00:{number:02x}") for number in numbers}

    @pytest.mark.parametrize(
        ("first", "second", "owes", "says"),
        [
            ((1, 2), (3, 4), 1, True),
            ((1, 2), (2, 3), 1, False),  # one that lost a card and got another
            ((1, 2), (3, 4), 2, False),  # the first does not answer any more
            ((), (3, 4), 0, False),
        ],
    )
    def test_the_second_is_a_rival_as_long_as_the_first_answers(
        self, fabric: Fabric, first: tuple[int, ...], second: tuple[int, ...], owes: int, says: bool
    ) -> None:
        switches = fabric.switches
        old, new = switches.connections[DPID], Connection(fabric.held[DPID], switches)
        old.ports, new.ports = self.ports(*first), self.ports(*second)
        old.unreplied_echo_requests = list(range(owes))
        assert switches.connections.has_rival(new) is says and not old.is_closed

    def test_the_first_with_an_id_has_no_rival_also_after_it_has_gone(self, fabric: Fabric) -> None:
        old = fabric.switches.connections[DPID]
        old.ports = self.ports(1)
        assert not fabric.switches.connections.has_rival(old)
        fabric.switches.disconnected(old)
        assert not fabric.switches.connections.has_rival(old)

    def test_nothing_is_heard_by_a_connection_that_is_not_the_switchs(self, fabric: Fabric) -> None:
        old, new = fabric.switches.connections[DPID], Connection(fabric.held[DPID], fabric.switches)
        assert fabric.switches.connections.serves(old) and not fabric.switches.connections.serves(new)
        fabric.switches.connected(new)
        assert fabric.switches.connections.serves(new) and not fabric.switches.connections.serves(old)
        fabric.switches.disconnected(new)
        assert not fabric.switches.connections.serves(new)


class TestAgeing:
    """A switch removes the entry of a host that is idle."""

    @staticmethod
    def expire(fabric: Fabric, at: PortRef) -> None:
        flows = fabric.held[at.dpid].flows
        address = bytes.fromhex(mac(at).replace(":", ""))
        (idle,) = [key for key in flows.entries if key[0] == LEARN and key[1] == 100 and address in key[2]]
        flows._remove(idle)
        fabric.switches.expired(at, mac(at))

    def test_one_that_speaks_again_at_once_is_let_in_again(self, fabric: Fabric) -> None:
        wanted = tables(VIEW, TREE)
        fabric.converge(wanted=wanted)
        self.expire(fabric, PortRef(DPID, 1))
        assert not fabric.holds()
        assert fabric.converge(wanted=wanted) == 1 and fabric.holds()

    def test_its_entry_is_not_missed(self, fabric: Fabric) -> None:
        self.expire(fabric, PortRef(DPID, 1))
        fabric.switches.poll()
        count = len(fabric.held[DPID].flows.entries)
        assert [fabric.switches.flows_counted(DPID, count, 0) for _ in range(2)] == [False, False]


class TestFullTable:
    """A switch that refuses some of its flows."""

    def test_what_it_lacks_is_put_again_but_not_at_once(self, fabric: Fabric) -> None:
        switches, count = fabric.switches, len(fabric.held[DPID].flows.entries) - 1
        switches.poll()
        switches.shortfalls.refused(DPID, 5)
        assert not any(switches.flows_counted(DPID, count, now_ns) for now_ns in (6, 7, 4 + REFUSED_NS))
        assert [switches.flows_counted(DPID, count, 5 + REFUSED_NS) for _ in range(2)] == [False, True]

    def test_one_that_has_refused_nothing_gets_them_at_once(self, fabric: Fabric) -> None:
        fabric.switches.poll()
        fabric.switches.shortfalls.refused(DPID + 1, 5)
        count = len(fabric.held[DPID].flows.entries) - 1
        assert [fabric.switches.flows_counted(DPID, count, 6) for _ in range(2)] == [False, True]

    def test_it_is_known_to_refuse_until_it_holds_all_or_leaves(self, fabric: Fabric) -> None:
        switches, count = fabric.switches, len(fabric.held[DPID].flows.entries)
        switches.poll()
        switches.shortfalls.refused(DPID, 5)
        assert switches.shortfalls.lacks(DPID)
        switches.flows_counted(DPID, count - 1, 5 + REFUSED_NS)
        assert switches.shortfalls.lacks(DPID)
        switches.flows_counted(DPID, count, 6 + REFUSED_NS)
        assert not switches.shortfalls.lacks(DPID)
        switches.shortfalls.refused(DPID, 5)
        switches.disconnected(switches.connections[DPID])
        assert not switches.shortfalls.lacks(DPID)


def test_a_switch_that_does_not_read_is_not_asked_for_its_counters_and_the_others_are(fabric: Fabric) -> None:
    """The framework would wait until it reads, and so would the others."""
    asked: list[int] = []
    for dpid, datapath in fabric.switches.connections.items():
        datapath.send = lambda _, dpid=dpid: asked.append(dpid)
    fabric.switches.connections[DPID].send_q = SimpleNamespace(qsize=lambda: 16)
    fabric.switches.poll()
    assert asked == [dpid for dpid in fabric.switches.connections if dpid != DPID]


class TestSlowSwitches:
    """Another tree, while switches take their time to close what leaves the one before."""

    LEAVES, JOINS = RING[1], RING[3]
    NEXT = frozenset((RING[0], RING[2], RING[3]))

    def change(self, fabric: Fabric, *slow: int) -> None:
        for dpid in slow:
            fabric.switches.connections[dpid].is_slow = True
        self.converge(fabric)

    def converge(self, fabric: Fabric) -> None:
        fabric.converge(wanted=tables(VIEW, self.NEXT))
        assert not self.loops(fabric)

    def loops(self, fabric: Fabric) -> bool:
        flows = {dpid: switch.flows for dpid, switch in fabric.held.items()}
        far = {end: other for link in RING for end, other in (link, link[::-1])}
        frames = [(ref, Frame(bytes.fromhex(mac(ref).replace(":", "")), b"\xff" * 6)) for ref in VIEW.edges]
        return any(walk(flows, far, ref, frame).loops for ref, frame in frames)

    def open_ports(self, fabric: Fabric) -> dict[int, frozenset[int]]:
        return {dpid: frozenset(switch.flows.groups[FLOOD_GROUP]) for dpid, switch in fabric.held.items()}

    def is_open(self, fabric: Fabric) -> bool:
        return all(end.number in fabric.held[end.dpid].flows.groups[FLOOD_GROUP] for end in self.JOINS)

    def test_no_link_joins_the_tree_before_one_end_of_what_leaves_it_is_closed(self, fabric: Fabric) -> None:
        first, second = (fabric.switches.connections[end.dpid] for end in self.LEAVES)
        self.change(fabric, first.id, second.id)
        assert fabric.switches.held_back and not self.is_open(fabric)
        self.converge(fabric)
        assert fabric.switches.held_back, "looking again does not help"
        first.is_slow = second.is_slow = False
        assert fabric.switches.awaiting
        first.carry_out()
        self.converge(fabric)
        assert not fabric.switches.held_back and self.is_open(fabric)
        assert not fabric.switches.awaiting
        second.carry_out()
        self.converge(fabric)

    def test_one_that_does_not_read_is_not_waited_for_and_has_its_change_when_it_reads(self, fabric: Fabric) -> None:
        deaf = fabric.switches.connections[self.LEAVES.b.dpid]
        deaf.reads = False
        self.converge(fabric)
        assert self.is_open(fabric) and fabric.holds() is False
        assert fabric.switches.awaiting and not fabric.switches.due()
        assert fabric.switches.deaf(fabric.now_ns) == []
        assert fabric.switches.deaf(fabric.now_ns + DEAF_NS) == [deaf.id]
        assert fabric.switches.deaf(fabric.now_ns + DEAF_NS) == [], "told once"
        deaf.reads = True
        assert fabric.switches.due()
        self.converge(fabric)
        assert self.open_ports(fabric) == {dpid: table.groups[FLOOD_GROUP] for dpid, table in tables(VIEW, self.NEXT).items()}
        assert not fabric.switches.awaiting and not fabric.switches.due()
        assert fabric.converge(wanted=tables(VIEW, self.NEXT)) == 0

    def test_two_that_do_not_read_keep_out_what_would_make_a_loop_with_the_link_between_them(self, fabric: Fabric) -> None:
        deaf = [fabric.switches.connections[end.dpid] for end in self.LEAVES]
        for datapath in deaf:
            datapath.reads = False
        self.converge(fabric)
        self.converge(fabric)
        assert fabric.switches.held_back and not self.is_open(fabric)
        deaf[0].reads = True
        self.converge(fabric)
        deaf[1].reads = True
        self.converge(fabric)
        assert not fabric.switches.held_back and self.is_open(fabric)

    def test_one_that_does_not_read_and_is_suspect_gets_its_whole_table_when_it_reads(self, fabric: Fabric) -> None:
        deaf = fabric.switches.connections[DPID]
        deaf.reads = False
        fabric.switches.suspect(DPID)
        self.converge(fabric)
        deaf.reads = True
        assert fabric.converge(wanted=tables(VIEW, self.NEXT)) > len(tables(VIEW, self.NEXT)[DPID].flows)
        self.converge(fabric)

    def test_of_two_whose_tables_are_not_known_one_has_said_that_it_holds_it_before_a_link_joins(self, fabric: Fabric) -> None:
        first, second = (fabric.switches.connections[end.dpid] for end in self.LEAVES)
        for datapath in (first, second):
            fabric.switches.suspect(datapath.id)
        self.change(fabric, first.id, second.id)
        assert fabric.switches.held_back and not self.is_open(fabric)
        first.is_slow = False
        first.carry_out()
        self.converge(fabric)
        assert not fabric.switches.held_back and self.is_open(fabric)
        second.is_slow = False
        second.carry_out()
        self.converge(fabric)
        assert not fabric.switches.awaiting or fabric.switches._foreign_until_ns
        assert self.open_ports(fabric) == {dpid: table.groups[FLOOD_GROUP] for dpid, table in tables(VIEW, self.NEXT).items()}

    def test_one_whose_table_is_not_known_keeps_the_links_open_that_stay(self, fabric: Fabric) -> None:
        for end in self.LEAVES:
            fabric.switches.suspect(end.dpid)
            fabric.switches.connections[end.dpid].is_slow = True
        self.converge(fabric)
        for end in self.LEAVES:
            fabric.switches.connections[end.dpid].carry_out()
        assert fabric.switches.held_back
        stay = {end for link in self.NEXT - {self.JOINS} for end in link}
        assert all(end.number in self.open_ports(fabric)[end.dpid] for end in stay)

    def test_nothing_else_waits_for_one_that_does_not_read(self, fabric: Fabric) -> None:
        fabric.start(mute=(DPID,))
        fabric.after(READ_NS)
        fabric.converge()
        deaf = fabric.switches.connections[DPID]
        deaf.reads = False
        fabric.after(FOREIGN_NS)
        fabric.switches.take_over(DPID)
        fabric.switches.joining(fabric.now_ns)
        assert not deaf.is_closed
        fabric.switches.connections.claim_role(DPID, Claim(Role.MASTER, 1))
        assert deaf.is_closed, "it claims anew by the next connection"

    def test_one_closed_end_is_enough(self, fabric: Fabric) -> None:
        self.change(fabric, self.LEAVES.b.dpid)
        assert not fabric.switches.held_back and self.is_open(fabric)

    def test_one_that_leaves_is_not_waited_for(self, fabric: Fabric) -> None:
        self.change(fabric, *(end.dpid for end in self.LEAVES))
        for end in self.LEAVES:
            fabric.switches.disconnected(fabric.switches.connections[end.dpid])
        fabric.converge(wanted=tables(VIEW, self.NEXT))
        assert not fabric.switches.held_back and not fabric.switches.late(fabric.now_ns + SILENT_NS)

    @pytest.mark.parametrize(("silent", "patience_ns"), [(False, ANSWER_NS), (True, SILENT_NS)])
    def test_one_that_never_answers_loses_its_connection_when_the_others_wait_for_it(
        self, fabric: Fabric, silent: bool, patience_ns: int
    ) -> None:
        """One that answers nothing at all may be busy, and has more time; nothing that might make a loop joins meanwhile."""
        ends = {end.dpid for end in self.LEAVES}
        self.change(fabric, *ends)
        for dpid in ends:
            fabric.switches.connections[dpid].unreplied_echo_requests = [1, 2] if silent else []
        assert fabric.switches.late(fabric.now_ns + patience_ns - 1) == []
        fabric.now_ns += patience_ns
        assert set(fabric.switches.late(fabric.now_ns)) == ends
        assert all(fabric.switches.connections[dpid].is_closed for dpid in ends)
        assert fabric.switches.late(fabric.now_ns) == [], "each once"
        self.converge(fabric)
        assert fabric.switches.held_back, "until it has left"

    def test_one_that_never_answers_keeps_its_connection_when_nothing_waits_for_it(self, fabric: Fabric) -> None:
        self.change(fabric, self.LEAVES.b.dpid)
        assert fabric.switches.late(fabric.now_ns + SILENT_NS) == [] and not fabric.switches.awaiting

    def test_one_that_has_its_whole_table_to_put_has_more_time(self, fabric: Fabric) -> None:
        for end in self.LEAVES:
            fabric.switches.suspect(end.dpid)
        self.change(fabric, *(end.dpid for end in self.LEAVES))
        assert fabric.switches.held_back and fabric.switches.late(fabric.now_ns + SILENT_NS - 1) == []
        assert set(fabric.switches.late(fabric.now_ns + SILENT_NS)) == {end.dpid for end in self.LEAVES}


class Stubborn(Switch):
    """A switch that refuses to modify its groups as long as it is `full`; `told` keeps its errors."""

    full: bool
    told: list[bytes]

    def _one(self, kind: int, told: bytes) -> bytes:
        if kind == GROUP_MOD and self.full:
            exists = told[8:10] == bytes(2)
            code = ofproto_v1_3.OFPGMFC_GROUP_EXISTS if exists else ofproto_v1_3.OFPGMFC_OUT_OF_BUCKETS
            body = struct.pack("!HH", ofproto_v1_3.OFPET_GROUP_MOD_FAILED, code) + told[:64]
            self.told.append(message(ERROR, body, int.from_bytes(told[4:8])))
            return b""
        return super()._one(kind, told)


class TestGroups:
    """A switch that refuses to change a group, though it takes all flows."""

    def refusals(self, fabric: Fabric, switch: Stubborn) -> list[bool]:
        """Of each error of the switch, whether it says that a group was not taken; the application hears that."""
        datapath, said = fabric.switches.connections[switch.dpid], []
        for one in switch.told:
            version, kind, length, xid = ofproto_parser.header(one)
            error = ofproto_v1_3_parser.msg_parser(datapath, version, kind, length, xid, one)
            assert not refuses_table(error)
            said.append(refuses_group(error))
            if said[-1]:
                fabric.switches.shortfalls.refused(switch.dpid, fabric.now_ns, of_group=True)
        return said

    def test_one_that_refused_a_group_once_gets_it_again_and_converges(self, fabric: Fabric) -> None:
        switch = fabric.held[DPID]
        switch.__class__ = Stubborn
        assert isinstance(switch, Stubborn)
        switch.full, switch.told = True, []
        before = dict(switch.flows.groups)
        less = {dpid: Table(table.flows, {n: ports - {1} for n, ports in table.groups.items()})
                for dpid, table in tables(VIEW, TREE).items()}  # fmt: skip
        fabric.converge(wanted=less)
        said = self.refusals(fabric, switch)
        assert said.count(True) == said.count(False) > 0 and switch.flows.groups == before
        switch.full = False

        def counted() -> bool:
            fabric.switches.poll()
            return fabric.switches.flows_counted(DPID, len(switch.flows.entries), fabric.now_ns)

        assert [counted() for _ in range(3)] == [False] * 3 and fabric.switches.shortfalls.lacks(DPID), "not at once"
        fabric.now_ns += REFUSED_NS
        assert [counted() for _ in range(2)] == [False, True]
        fabric.converge(wanted=less)
        assert {n: frozenset(ports) for n, ports in switch.flows.groups.items()} == less[DPID].groups
        fabric.after(FOREIGN_NS)
        assert [counted() for _ in range(2)] == [False, False] and not fabric.switches.shortfalls.lacks(DPID)


class TestReconnection:
    """A switch whose connection was away."""

    def test_it_ends_with_the_flows_that_are_wanted_and_no_others(self, fabric: Fabric) -> None:
        less = without(mac(PortRef(3, 1)), mac(PortRef(4, 2)))
        datapath = fabric.switches.connections[DPID]
        fabric.switches.disconnected(datapath)
        wanted = tables(less, TREE)
        fabric.converge(less, {dpid: table for dpid, table in wanted.items() if dpid != DPID})
        sent = fabric.held[DPID].flows.sent
        fabric.connect(fabric.held[DPID])
        fabric.after(TAKEOVER_NS)
        fabric.converge(less)
        fabric.after(UNHEARD_NS)
        fabric.converge(less)
        assert fabric.holds(less)
        assert fabric.held[DPID].flows.sent - sent == needed_by(tables(VIEW, TREE)[DPID], tables(less, TREE)[DPID]) < 15
        assert not fabric.switches.flows_counted(DPID, len(fabric.held[DPID].flows.entries), 0)

    def test_where_the_old_connection_is_still_there_it_gets_its_whole_table(self, fabric: Fabric) -> None:
        sent = fabric.held[DPID].flows.sent
        fabric.connect(fabric.held[DPID])
        fabric.converge()
        assert fabric.held[DPID].flows.sent - sent > len(tables(VIEW, TREE)[DPID].flows)

    def test_a_new_connection_ends_the_old_one_and_owes_nothing_for_it(self, fabric: Fabric) -> None:
        switches = fabric.switches
        old, new = switches.connections[DPID], Connection(fabric.held[DPID], switches)
        switches.fence([DPID], 1)  # and its answer is lost
        switches.queues.told(DPID, frozenset({1}))
        switches.queues.has_none(DPID)
        assert switches.connected(new) and old.is_closed and not new.is_closed
        assert switches.queues.told(DPID, frozenset({1}))
        assert switches.queues.asks(DPID)
        assert not switches.disconnected(old)
        switches.fence([DPID], 2)
        assert switches.barrier_passed(DPID, switches._fences[DPID][0]) == 2

    def test_a_first_connection_ends_no_other(self, fabric: Fabric) -> None:
        old = fabric.switches.connections[DPID]
        assert fabric.switches.disconnected(old)
        assert not fabric.switches.connected(Connection(fabric.held[DPID], fabric.switches)) and not old.is_closed
