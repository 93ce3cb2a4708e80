"""LLDP's cables against the file's."""

from __future__ import annotations

import pytest

from controller.config.settings import TreeSource
from controller.spanning_tree.port_states import Neighbour, PortState
from controller.spanning_tree.tracker import Tracker
from controller.spanning_tree.wiring import contradictions, with_ports
from topology.fabric import Fabric, FabricBuilder


def fabric(a_port: str | None = None, b_port: str | None = None) -> Fabric:
    builder = FabricBuilder().add_switch("s1").add_switch("s2").add_switch("s3")
    builder.add_link("s1", "s2", 10**9, a_port, b_port)
    return builder.add_link("s2", "s3", 10**9, "p23", "p32").build()


def seen(switch: str, port: str, system: str, remote: str = "x") -> PortState:
    return PortState(switch, port, True, Neighbour(system, remote))


def test_a_port_that_the_file_lacks_is_taken_from_lldp() -> None:
    found = with_ports(fabric(), [seen("s1", "p12", "s2.example.net"), seen("s2", "p21", "s1")])
    assert (found.port(("s1", "s2")), found.port(("s2", "s1"))) == ("p12", "p21")
    assert found.port(("s2", "s3")) == "p23"


def test_a_port_that_one_end_alone_names_does_not_displace_one_that_both_name() -> None:
    honest = [seen("s1", "p12", "s2", "p21"), seen("s2", "p21", "s1", "p12")]
    forged = seen("s1", "p9", "s2", "p21")  # by a host at p9, which comes later in any order
    found = with_ports(fabric(), [*honest, forged])
    assert (found.port(("s1", "s2")), found.port(("s2", "s1"))) == ("p12", "p21")
    assert contradictions(fabric(), [*honest, forged]) == []


def test_of_two_ports_that_nobody_confirms_none_is_taken_and_that_is_told() -> None:
    states = [seen("s1", "p12", "s2"), seen("s1", "p9", "s2")]
    assert with_ports(fabric(), states).port(("s1", "s2")) is None
    (line,) = contradictions(fabric(), states)
    assert line.startswith("fabric: LLDP sees s2 at the ports p12 and p9 of s1, s2 confirms none; write the port")


@pytest.mark.parametrize(
    "state", [seen("s1", "p12", "elsewhere"), seen("elsewhere", "p12", "s2"), seen("s1", "p12", "s3"), seen("s1", "p", "s1")]
)
def test_what_is_not_a_cable_of_the_fabric_changes_nothing(state: PortState) -> None:
    before = fabric()
    assert with_ports(before, [state]) is before


def test_a_port_of_another_link_is_not_taken_twice() -> None:
    before = fabric()
    assert with_ports(before, [seen("s2", "p23", "s1")]) is before


def blocked(tracker: Tracker, *states: PortState) -> list[list[str]]:
    """What the tree leaves out, as one source reports all ports."""
    (source,) = tracker.read_sources
    tracker.heard(source, frozenset(states))
    document = tracker.document(None, 0)
    assert document is not None
    return list(document["blocked"])


def test_a_cable_that_is_moved_to_another_port_has_its_link_there() -> None:
    tracker = Tracker(fabric(), [TreeSource("snmp", "10.0.0.1", "s1", "/x")])
    far, down = PortState("s2", "p21", True, Neighbour("s1", "p12")), PortState("s1", "p12", False)
    other_links = [PortState("s2", "p23", True), PortState("s3", "p32", True)]
    assert blocked(tracker, seen("s1", "p12", "s2", "p21"), far, *other_links) == []
    assert blocked(tracker, down, PortState("s2", "p21", False), *other_links) == [["s1", "s2"]]  # it is pulled out
    moved = PortState("s2", "p21", True, Neighbour("s1", "p9"))
    assert blocked(tracker, down, seen("s1", "p9", "s2", "p21"), moved, *other_links) == []
    assert [note for note in tracker.notes if note.kind == "tree_source"] == []


def test_a_port_stays_known_when_lldp_shows_nothing_there_but_not_when_it_shows_another_switch() -> None:
    known = with_ports(fabric(), [seen("s1", "p12", "s2")])
    assert with_ports(fabric(), [PortState("s1", "p12", False)], known) is known
    assert with_ports(fabric(), [seen("s1", "p12", "s3")], known).port(("s1", "s2")) is None


def test_a_cable_that_differs_from_the_file_is_told_with_the_remedy_until_it_is_mended() -> None:
    known = fabric("p12", "p21")
    assert contradictions(known, [seen("s1", "p12", "s2"), seen("s2", "p23", "s3")]) == []
    (line,) = contradictions(known, [seen("s2", "p23", "s1")])
    assert line == "fabric: port p23 of s2 leads to s3, but LLDP sees s1 there; mend the file or the cable"
    (line,) = contradictions(known, [seen("s1", "p9", "s2")])
    assert "s1 reaches s2 by port p12, but LLDP sees it at p9" in line

    source = TreeSource("snmp", "10.0.0.1", "s1", "/x")
    tracker = Tracker(known, [source])
    for neighbour, count in (("s3", 1), ("s3", 1), ("s2", 2)):
        tracker.heard(source, frozenset({seen("s1", "p12", neighbour)}))
        tracker.document(None, 0)
        assert len(tracker.notes) == count
    assert [note.severity for note in tracker.notes] == ["warning", "info"]
