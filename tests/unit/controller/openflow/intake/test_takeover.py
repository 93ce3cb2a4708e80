"""What switches tell of themselves after a start, how much of it is taken, and in which order they are asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.openflow.intake.hosts import PortRef
from controller.openflow.intake.takeover import (
    FLOWS_MAX,
    GROUPS_MAX,
    PARTS_MAX,
    READ_AT_ONCE,
    READ_NS,
    TAKEOVER_NS,
    UNHEARD_NS,
    Reading,
    Takeover,
    source_key,
)
from controller.openflow.tables.flowtable import Flow, Match, Table
from controller.openflow.tables.forwarding import LEARN
from tests.unit.controller.openflow.fake_of_table import tables
from tests.unit.controller.openflow.tables.test_forwarding import TREE, VIEW, mac

FLOW = Flow(0, 1, Match(in_port=1), output=2)


def told(table: Table, count: int | None = None) -> Reading:
    reading = Reading(0)
    reading.flows(table.flows.values(), more=False)
    reading.groups(table.groups.items(), more=False)
    reading.counted(len(table.flows) if count is None else count)
    return reading


def read(takeover: Takeover, dpid: int, table: Table, now_ns: int = 0) -> None:
    """This switch is asked, and tells this table."""
    takeover.connected(dpid)
    for asked in takeover.to_ask():
        takeover.asked(asked, (1, 2, 3), now_ns)
    reading = takeover.reading(dpid)
    assert reading is not None
    reading.flows(table.flows.values(), more=False)
    reading.groups(table.groups.items(), more=False)
    reading.counted(len(table.flows))


class TestReading:
    """One switch tells what it holds."""

    def test_the_parts_make_the_table(self) -> None:
        table = tables(VIEW, TREE)[3]
        reading, flows = Reading(0), list(table.flows.values())
        for at in range(0, len(flows), 7):
            assert not reading.over(0)
            reading.flows(flows[at : at + 7], more=at + 7 < len(flows))
        reading.groups(table.groups.items(), more=False)
        assert not reading.over(0)
        reading.counted(len(flows))
        assert reading.over(0) and reading.sound and reading.table == table

    def test_flows_of_others_spoil_it(self) -> None:
        assert not told(tables(VIEW, TREE)[3], count=1_000).sound

    def test_one_that_idled_out_meanwhile_does_not(self) -> None:
        table = tables(VIEW, TREE)[3]
        assert told(table, count=len(table.flows) - 1).sound

    def test_who_tells_nothing_more_is_not_waited_for(self) -> None:
        reading = Reading(0)
        reading.flows((), more=False)
        assert not reading.over(READ_NS - 1)
        assert reading.over(READ_NS) and not reading.sound

    def test_what_is_not_ours_ends_it(self) -> None:
        reading = Reading(0)
        reading.flows([FLOW, None], more=True)
        assert reading.over(0) and not reading.sound

    def test_who_tells_without_end_is_not_heard_to_the_end(self) -> None:
        flows, groups, parts = Reading(0), Reading(0), Reading(0)
        flows.flows((FLOW._replace(match=Match(in_port=port)) for port in range(10 * FLOWS_MAX)), more=True)
        assert flows.over(0) and not flows.sound and len(flows.table.flows) <= FLOWS_MAX
        groups.groups(((number, frozenset()) for number in range(GROUPS_MAX + 1)), more=True)
        assert groups.over(0) and not groups.sound
        for _ in range(PARTS_MAX):
            assert not parts.over(0)
            parts.flows((), more=True)
        parts.flows((), more=True)
        assert parts.over(0) and not parts.sound

    def test_the_same_entry_again_and_again_is_bounded_too(self) -> None:
        reading = Reading(0)
        reading.flows((FLOW for _ in range(10 * FLOWS_MAX)), more=True)
        assert not reading.sound


class TestTurns:
    """Some switches are asked at a time."""

    def test_all_are_asked_some_at_a_time(self) -> None:
        takeover, seen = Takeover(0), []
        for dpid in range(100):
            takeover.connected(dpid)
        for now_ns in range(0, 100 * READ_NS, READ_NS):
            asked = takeover.to_ask()
            assert len(asked) <= READ_AT_ONCE
            for dpid in asked:
                takeover.asked(dpid, (1, 2, 3), now_ns)
            seen += asked
            takeover.joining(now_ns + READ_NS)
        assert seen == list(range(100))

    def test_a_start_joins_all_when_all_have_told(self) -> None:
        takeover = Takeover(0)
        read(takeover, 1, Table())
        takeover.connected(2)
        assert takeover.joining(0) == [] and takeover.to_ask() == [2]
        takeover.asked(2, (1, 2, 3), 0)
        assert takeover.joining(READ_NS - 1) == []
        assert takeover.joining(READ_NS) == [1, 2]
        assert takeover.held.keys() == {1}, "the other is unread"

    def test_after_a_start_nobody_waits_for_another(self) -> None:
        takeover = Takeover(0)
        takeover.connected(9)
        takeover.asked(takeover.to_ask()[0], (1, 2, 3), TAKEOVER_NS)
        read(takeover, 1, Table(), TAKEOVER_NS)
        assert takeover.joining(TAKEOVER_NS) == [1]

    def test_answers_of_a_connection_that_ended_are_nobodys(self) -> None:
        takeover = Takeover(0)
        takeover.connected(1)
        takeover.asked(takeover.to_ask()[0], (1, 2, 3), 0)
        assert takeover.answers(1, 3) and not takeover.answers(1, 4) and not takeover.answers(2, 3)
        takeover.forget(1)
        assert not takeover.answers(1, 3) and takeover.joining(READ_NS) == []

    def test_a_late_answer_is_known_as_one(self) -> None:
        """Else it would be taken for counters."""
        takeover = Takeover(0)
        takeover.connected(1)
        takeover.asked(takeover.to_ask()[0], (1, 2, 3), 0)
        takeover.joining(READ_NS)
        assert takeover.answers(1, 1) and takeover.reading(1) is None


class TestHosts:
    """Whom the switches let in."""

    def takeover(self, **changed: Table) -> Takeover:
        takeover = Takeover(0)
        for dpid, table in tables(VIEW, TREE).items():
            read(takeover, dpid, changed.get(f"s{dpid}", table))
        takeover.joining(0)
        return takeover

    def test_all_hosts_of_the_fabric_are_found_in_its_switches_tables(self) -> None:
        assert {host.mac: host for host in self.takeover().hosts(VIEW)} == VIEW.hosts

    def test_an_address_that_two_switches_claim_is_nobodys(self) -> None:
        victim, liar = mac(PortRef(3, 1)), tables(VIEW, TREE)[1]
        liar.add(Flow(LEARN, 100, source_key(1, victim).match, goto=2, idle_s=300))
        assert {host.mac for host in self.takeover(s1=liar).hosts(VIEW)} == VIEW.hosts.keys() - {victim}

    def test_those_of_a_switch_that_does_not_take_part_yet_come_later(self) -> None:
        less = replace(VIEW, switches={dpid: switch for dpid, switch in VIEW.switches.items() if dpid != 3})
        takeover = self.takeover()
        assert {host.at.dpid for host in takeover.hosts(less)} == {1, 2, 4}
        assert takeover.waits(less, 0) and not takeover.waits(VIEW, 0)
        assert takeover.take({dpid: Table() for dpid in less.switches}, 0).keys() <= less.switches.keys()
        assert {host.at.dpid for host in takeover.hosts(VIEW)} == {3}


class TestWaiting:
    """How long tables stay as they are."""

    def test_switches_without_tables_are_served_at_once(self) -> None:
        takeover = Takeover(0)
        for dpid in VIEW.switches:
            read(takeover, dpid, Table())
        takeover.joining(0)
        assert not takeover.waits(replace(VIEW, links=()), 0)

    @pytest.mark.parametrize("missing", range(3))
    def test_a_link_of_the_old_tree_that_is_not_known_is_waited_for(self, missing: int) -> None:
        takeover = Takeover(0)
        for dpid, table in tables(VIEW, TREE).items():
            read(takeover, dpid, table)
        takeover.joining(0)
        gone = sorted(TREE)[missing]
        less = replace(VIEW, links=tuple(link for link in VIEW.links if link != gone))
        assert takeover.waits(less, TAKEOVER_NS - 1) and not takeover.waits(less, TAKEOVER_NS)
        assert takeover.waits(VIEW, 0, informed=False) and not takeover.waits(VIEW, TAKEOVER_NS, informed=False)

    def test_when_time_alone_changes_something_is_told(self) -> None:
        takeover = Takeover(0)
        assert takeover.next_ns() is None
        for dpid, table in tables(VIEW, TREE).items():
            read(takeover, dpid, table)
        takeover.joining(0)
        takeover.waits(replace(VIEW, links=()), 0)
        assert takeover.next_ns() == TAKEOVER_NS
        takeover.waits(VIEW, 1)
        assert takeover.next_ns() is None
        less = tables(replace(VIEW, hosts={}), TREE)
        takeover.take(less, 1)
        assert takeover.next_ns() == 1 + UNHEARD_NS
        takeover.keeping(less, 1 + UNHEARD_NS)
        assert takeover.next_ns() is None

    @given(st.lists(st.tuples(st.sampled_from("crlf"), st.integers(1, 4)), max_size=40))
    def test_nothing_waits_for_ever(self, events: list[tuple[str, int]]) -> None:
        """Whatever switches do: connect, are asked, leave, flood."""
        takeover, now_ns = Takeover(0), 0
        for kind, dpid in events:
            now_ns += READ_NS // 2
            if kind == "c":
                takeover.connected(dpid)
            elif kind == "r":
                for asked in takeover.to_ask():
                    takeover.asked(asked, (1, 2, 3), now_ns)
            elif kind == "l":
                takeover.forget(dpid)
            elif (reading := takeover.reading(dpid)) is not None:
                reading.flows([None], more=True)
            takeover.joining(now_ns)
        for _ in range(2):
            for asked in takeover.to_ask():
                takeover.asked(asked, (1, 2, 3), now_ns)
            now_ns += max(READ_NS, TAKEOVER_NS)
            takeover.joining(now_ns)
        assert not takeover.is_reading and not takeover.waits(VIEW, now_ns)
