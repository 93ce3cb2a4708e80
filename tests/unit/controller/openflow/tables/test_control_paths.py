"""The paths of control frames, compared with what the switches' tables do with the same frames."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.openflow.intake.hosts import PortRef
from controller.openflow.local_switches import wanted
from controller.openflow.tables.control_paths import ControlPath, control_paths, flooded
from controller.openflow.tables.forwarding import ETH_CONTROL, HEARTBEAT_MAC
from controller.openflow.view import View
from controller.switch_queues.control_keeper import Wanted
from tests.unit.controller.openflow.fake_of_table import Frame, push, tables
from tests.unit.controller.openflow.tables.test_forwarding import ATTACHED, COORDINATOR, COORDINATOR_PORT, TREE, VIEW, mac

SPEAKING = replace(VIEW, hosts={name: replace(host, speaks_control=True) for name, host in VIEW.hosts.items()})


def outputs(view: View, dpid: int, path: ControlPath) -> frozenset[int]:
    return frozenset({path.out}) if path.out is not None else flooded(view, TREE, dpid) - {path.port}


class TestControlPaths:
    """A program that follows them does what the switch would have done."""

    def test_every_path_is_the_tables_own(self) -> None:
        switches = tables(SPEAKING, TREE, ATTACHED)
        paths = control_paths(SPEAKING, TREE, ATTACHED)
        assert sum(map(len, paths.values())) > 20
        for dpid, through in paths.items():
            for path in through:
                verdict = push(switches[dpid], path.port, Frame(path.source, path.target, ETH_CONTROL))
                assert verdict.ports == outputs(SPEAKING, dpid, path)

    @given(st.sampled_from(sorted(VIEW.switches)), st.sampled_from([1, 2, 10, 11]), st.sampled_from(sorted(VIEW.hosts)))
    def test_none_leads_what_the_table_drops(self, dpid: int, port: int, host: str) -> None:
        """Forged frames, frames between hosts, and those at a wrong port stay the switch's business."""
        table = tables(SPEAKING, TREE, ATTACHED)[dpid]
        led = {(path.port, path.source, path.target) for path in control_paths(SPEAKING, TREE, ATTACHED)[dpid]}
        for source, target in ((COORDINATOR, host), (host, COORDINATOR), (host, host), (COORDINATOR, HEARTBEAT_MAC)):
            if not push(table, port, Frame(source, target, ETH_CONTROL)).ports:
                assert (port, source, target) not in led

    def test_a_host_is_led_from_its_own_port_only(self) -> None:
        host = mac(PortRef(1, 1))
        here = control_paths(SPEAKING, TREE, ATTACHED)[1]
        assert [path.port for path in here if path.source == host] == [1]

    def test_hosts_without_an_agent_have_none(self) -> None:
        paths = control_paths(VIEW, TREE, ATTACHED)
        assert {path.target for through in paths.values() for path in through} == {HEARTBEAT_MAC}

    def test_of_other_machines_switches_nothing_is_computed(self) -> None:
        every = control_paths(SPEAKING, TREE, ATTACHED)
        assert control_paths(SPEAKING, TREE, ATTACHED, dpids=[2]) == {2: every[2]}
        assert list(wanted(SPEAKING, TREE, ATTACHED, (), [2]).switches) == [f"{2:016x}"]

    def test_without_a_coordinator_there_are_none(self) -> None:
        assert not any(control_paths(SPEAKING, TREE).values())


def test_the_keeper_is_told_names_and_reads_what_it_is_told() -> None:
    told = Wanted.from_json(wanted(SPEAKING, TREE, ATTACHED, ()).to_json())
    here = told.switches[f"{COORDINATOR_PORT.dpid:016x}"]
    assert here.coordinators == [COORDINATOR]
    assert ["s2-eth2", COORDINATOR, HEARTBEAT_MAC, None] in here.paths
    assert set(here.flooded) >= {"s2-eth1", "s2-eth2"} and here.ports["s2-eth1"] == ""
