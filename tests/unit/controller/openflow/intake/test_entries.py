"""What a switch tells of its entries, read back into the values that they were made of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from bench.fuzz.openflow import FRAMEWORKS, SEEDS, Parser
from bench.openflow.switch import MULTIPART, Switch, message
from controller.openflow.codec import MAGIC, Codec, batch
from controller.openflow.intake import entries
from controller.openflow.intake.entries import Raw
from controller.openflow.intake.lldp import KEY_BYTES, Lldp
from controller.openflow.intake.messages import HEADER, Malformed, admits
from controller.openflow.intake.takeover import hosts
from controller.openflow.tables.flowtable import IN_PORT, Cause, Change, Flow, Match
from controller.openflow.tables.forwarding import GROUP_BIT, LINK_LOCAL, ControlAttachment
from tests.unit.controller.openflow.fake_of_table import tables
from tests.unit.controller.openflow.tables.test_forwarding import ATTACHED, TREE, VIEW

OURS = MAGIC << 48, 0xFFFF << 48
NO_PACKETS: Any = type("NoPackets", (), {"packet": None})
MACS = st.integers(0, (1 << 48) - 1).map(lambda number: number.to_bytes(6).hex(":"))
MASKED = MACS | st.sampled_from((GROUP_BIT, LINK_LOCAL))


def some(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | of


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    number = st.integers(1, 0xFFFFFF)
    arp = draw(some(st.ip_addresses(v=4).map(str)))
    match = Match(
        draw(some(number)), 0x0806 if arp else draw(some(st.integers(0, 0xFFFF))), draw(some(MASKED)), draw(some(MASKED)), arp
    )
    table = draw(st.integers(0, 3))
    return Flow(
        table,
        draw(st.integers(0, 0xFFFF)),
        match,
        draw(some(number | st.just(IN_PORT))),
        draw(some(number)),
        draw(some(st.integers(1, 0xFFFF))),
        draw(some(st.integers(table + 1, 9))),
        draw(st.integers(0, 0xFFFF)),
        draw(st.sampled_from(Cause)),
        draw(some(number)),
    )


def held(change: Change) -> Switch:
    """A switch that was sent this change by the application's own writer."""
    datapath: Any = ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)
    datapath.set_xid = lambda one: one.set_xid(1)
    switch = Switch(1, "s1", {}, lambda at, frame: None)
    switch.feed(batch(datapath, Codec(NO_PACKETS, 7, Lldp(bytes(KEY_BYTES))).change(datapath, change)))
    return switch


class TestFlows:
    """An entry is read as it was written."""

    @given(flows())
    def test_any_entry_that_baton_writes_is_read_as_it_was_written(self, flow: Flow) -> None:
        (told,) = held(Change({}, (), (flow,))).flows.told(*OURS)
        assert entries.flow(Raw(told)) == flow

    def test_the_tables_that_switches_get(self) -> None:
        for queued in ((), (1, 2, 3, 4)):
            for table in tables(VIEW, TREE, ATTACHED, (ControlAttachment("s3", "s3-eth1", None),), queued).values():
                switch = held(Change(table.groups, (), tuple(table.flows.values())))
                read = [entries.flow(Raw(told)) for told in switch.flows.told(*OURS)]
                assert {flow.key: flow for flow in read if flow} == table.flows
                assert dict(map(entries.group, map(Raw, switch.flows.groups_told()))) == table.groups

    def test_what_no_flow_can_say_is_none(self) -> None:
        """The seeds' entry sets a field and has a meter."""
        seed = next(seed for seed in SEEDS if seed[8:10] == b"\0\1" and seed[1] == 19)
        assert entries.flow(Raw.parser(seed, 16)) is None
        sound = next(iter(held(Change({}, (), (Flow(0, 1, Match(in_port=1), output=2, idle_s=9),))).flows.told(*OURS)))
        assert entries.flow(Raw(sound)) is not None
        for at, value in ((17, 5), (19, 0), (31, 9)):  # a hard timeout, no word of its end, no cause that we know
            assert entries.flow(Raw(sound[:at] + bytes([value]) + sound[at + 1 :])) is None

    @pytest.mark.parametrize("root", FRAMEWORKS)
    def test_the_frameworks_keep_it_as_it_came_and_its_counters_can_be_read(self, root: str) -> None:
        seed = next(seed for seed in SEEDS if seed[8:10] == b"\0\1" and seed[1] == 19)
        entry = Parser(root).parse(*HEADER.unpack_from(seed), seed).body[1]
        assert isinstance(entry, Raw)
        assert (entry.cookie, entry.packet_count, entry.length) == (0xBA70 << 48, 5, len(entry))


class TestHosts:
    """The hosts that a table lets in are those that it was made for."""

    def test_the_hosts_for_which_tables_were_made_are_found_in_them(self) -> None:
        found = {host.mac: host for dpid, table in tables(VIEW, TREE).items() for host in hosts(dpid, table)}
        assert found == VIEW.hosts


class TestGroups:
    """Descriptions of groups."""

    def test_another_kind_of_group_is_none(self) -> None:
        (told,) = held(Change({9: frozenset({1, 2})}, (), ())).flows.groups_told()
        assert entries.group(Raw(told)) == (9, frozenset({1, 2}))
        select = told[:2] + b"\1" + told[3:]
        to_a_group = told[:24] + b"\0\x16" + told[26:]
        assert entries.group(Raw(select)) == entries.group(Raw(to_a_group)) == (9, None)

    @pytest.mark.parametrize("at", [16, 24, 24 + 16 + 2])
    def test_no_length_of_0_passes(self, at: int) -> None:
        told = held(Change({9: frozenset({1})}, (), ())).feed(message(MULTIPART, b"\0\7" + bytes(6)))
        assert admits(told)
        with pytest.raises(Malformed):
            admits(told[:at] + bytes(2) + told[at + 2 :])
