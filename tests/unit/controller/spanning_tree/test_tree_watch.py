"""The fabric document that follows from the reports of the sources of the tree, and the operator's events."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from controller.config.settings import TreeSource
from controller.spanning_tree.sources import PortState
from controller.spanning_tree.tracker import LOOP_PATIENCE_NS, OpenFlowPart, Tracker
from controller.spanning_tree.watch import Reading, Watcher
from tests.unit.topology.topology_strategies import PROPERTY, fabrics
from topology.fabric import Fabric, FabricBuilder, Link
from topology.spanning_tree import Tree, compute

OPENFLOW, ONE, TWO = TreeSource("openflow", ""), TreeSource("ovsdb", "unix:/1"), TreeSource("bridge", "br2")
GIGABIT = 10**9


def ring(*switches: str) -> Fabric:
    """Switches in a ring with a host at each; the port of x towards y is "x-y"."""
    builder = FabricBuilder()
    for name in switches:
        builder.add_switch(name)
        builder.add_host(f"h{name}")
        builder.add_link(name, f"h{name}", GIGABIT, f"{name}-h{name}")
    for a, b in zip(switches, (*switches[1:], switches[0]), strict=True):
        builder.add_link(a, b, GIGABIT, f"{a}-{b}", f"{b}-{a}")
    return builder.build()


def states(fabric: Fabric, switches: str, *discarding: str) -> frozenset[PortState]:
    """All ports of the switches (a letter each); those named don't forward."""
    ends = [(switch, peer) for switch in switches for peer in fabric.neighbours(switch)]
    ports = [(end[0], fabric.port(end)) for end in ends]
    return frozenset(PortState(switch, port, port not in discarding) for switch, port in ports if port)


def as_stored(document: dict[str, Any] | None) -> dict[str, Any]:
    """As it comes back from the store."""
    assert document is not None
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def application(fabric: Fabric, *blocked: list[str]) -> dict[str, Any]:
    """What the OpenFlow application publishes of the switches it controls."""
    return {"fabric": fabric.to_dict(), "blocked": list(blocked), "hosts": [], "version": 7}


def told(tracker: Tracker) -> list[str]:
    texts = [note.text for note in tracker.notes]
    tracker.notes.clear()
    return texts


class TestReadTree:
    """Switches that Baton does not control."""

    fabric = ring("a", "b", "c")

    def test_blocked_links_are_published_once_and_again_when_they_change(self) -> None:
        tracker = Tracker(self.fabric, [ONE])
        assert tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        first = as_stored(tracker.document(None, 0))
        assert (first["blocked"], first["version"]) == ([["b", "c"]], 1)
        assert not tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        assert tracker.document(first, 1) is None
        assert tracker.heard(ONE, states(self.fabric, "abc", "a-b", "b-a"))
        second = as_stored(tracker.document(first, 2))
        assert (second["blocked"], second["version"]) == ([["a", "b"]], 2)

    def test_each_change_of_the_tree_is_one_event(self) -> None:
        tracker = Tracker(self.fabric, [ONE])
        for discarding in ("b-c", "b-c", "c-a"):
            tracker.heard(ONE, states(self.fabric, "abc", discarding))
            tracker.published(as_stored(tracker.document(None, 0)))
        assert told(tracker) == [
            "the active tree has changed, blocked: b - c",
            "the active tree has changed, blocked: a - c",
        ]

    def test_a_document_of_an_earlier_run_that_is_right_is_left_alone(self) -> None:
        before, after = Tracker(self.fabric, [ONE]), Tracker(self.fabric, [ONE])
        for tracker in (before, after):
            tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        assert after.document(as_stored(before.document(None, 0)), 0) is None

    def test_nothing_is_published_before_every_source_has_answered_or_failed(self) -> None:
        tracker = Tracker(self.fabric, [ONE, TWO])
        tracker.heard(ONE, states(self.fabric, "ab", "b-c"))
        assert tracker.document(None, 0) is None
        assert tracker.failed(TWO, "no answer")
        assert as_stored(tracker.document(None, 0))["blocked"] == [["b", "c"]]

    def test_a_source_that_fails_keeps_its_last_states_and_is_told_once_with_its_end(self) -> None:
        tracker = Tracker(self.fabric, [ONE])
        tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        stored = as_stored(tracker.document(None, 0))
        assert not any(tracker.failed(ONE, f"no answer {n}") for n in range(5))
        assert tracker.document(stored, 1) is None
        assert told(tracker) == ["no answer 0"]
        tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        assert told(tracker) == ["tree source ovsdb:unix:/1 can be read again"]

    def test_a_loop_keeps_the_last_tree_and_is_told_once_when_it_lasts(self) -> None:
        tracker = Tracker(self.fabric, [ONE])
        tracker.heard(ONE, states(self.fabric, "abc"))
        for now_ns in (0, LOOP_PATIENCE_NS - 1):
            assert tracker.document(None, now_ns) is None
        assert tracker.looping and told(tracker) == []
        for now_ns in (LOOP_PATIENCE_NS, 2 * LOOP_PATIENCE_NS):
            assert tracker.document(None, now_ns) is None
        (text,) = told(tracker)
        assert "the last tree stays" in text and "loop" in text
        tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        assert tracker.document(None, 3 * LOOP_PATIENCE_NS) is not None
        assert not tracker.looping and told(tracker) == ["what forwards has no loop any more"]

    @pytest.mark.parametrize("other", ["x", ""])
    def test_sources_that_report_no_switch_of_the_fabric_are_an_error_not_a_tree(self, other: str) -> None:
        tracker = Tracker(self.fabric, [ONE])
        tracker.heard(ONE, frozenset({PortState(other, "p", True)} if other else ()))
        assert tracker.document(None, 0) is None
        assert [text.partition(":")[0] for text in told(tracker)] == ["fabric"]

    def test_what_the_application_left_in_a_store_is_no_matter_when_it_is_no_source(self) -> None:
        tracker = Tracker(self.fabric, [ONE])
        tracker.heard(ONE, states(self.fabric, "abc", "b-c"))
        document = as_stored(tracker.document(application(self.fabric, ["a", "b"]), 0))
        assert document["blocked"] == [["b", "c"]] and "openflow" not in document

    @PROPERTY
    @given(fabrics())
    def test_the_coordinator_gets_the_tree_that_the_ports_show(self, drawn: Fabric) -> None:
        builder = FabricBuilder()
        for name in drawn.switches:
            builder.add_switch(name)
        for a, b in (link for link in drawn.links if not (drawn.is_host(link.a) or drawn.is_host(link.b))):
            builder.add_link(a, b, GIGABIT, f"{a}>{b}", f"{b}>{a}")
        fabric = builder.build()
        tree = compute(fabric)
        tracker = Tracker(fabric, [ONE])
        seen = frozenset(
            PortState(direction.source, fabric.port(direction) or "", link in tree.forwarding)
            for link in fabric.links
            for direction in link.directions
        )
        tracker.heard(ONE, seen | {PortState(name, "spare", True) for name in fabric.switches})
        document = as_stored(tracker.document(None, 0))
        assert Tree.from_blocked(Fabric.from_dict(document["fabric"]), document["blocked"]) == tree


class TestJoinedWithOpenFlow:
    """A ring a, b, c that the application controls, and a ring c, d, e that it does not."""

    @pytest.fixture
    def fabric(self) -> Fabric:
        builder = FabricBuilder.of(ring("a", "b", "c"))
        for name in "de":
            builder.add_switch(name)
        for a, b in ("cd", "de", "ec"):
            builder.add_link(a, b, GIGABIT, f"{a}-{b}", f"{b}-{a}")
        return builder.build()

    @pytest.fixture
    def tracker(self, fabric: Fabric) -> Tracker:
        tracker = Tracker(fabric, [OPENFLOW, ONE])
        tracker.heard(ONE, states(fabric, "de", "e-d"))
        return tracker

    def test_a_link_is_blocked_when_either_says_so(self, tracker: Tracker) -> None:
        # the ring c - d - e is closed at c by the two switches d and e alone
        joined = as_stored(tracker.document(application(ring("a", "b", "c"), ["a", "b"]), 0))
        assert joined["blocked"] == [["a", "b"], ["d", "e"]]
        assert len(joined["fabric"]["switches"]) == 5

    def test_a_link_that_the_application_does_not_see_is_down(self, tracker: Tracker) -> None:
        cut = FabricBuilder()
        for name in "abc":
            cut.add_switch(name)
        cut.add_link("a", "b", GIGABIT).add_link("a", "c", GIGABIT)
        assert ["b", "c"] in as_stored(tracker.document(application(cut.build()), 0))["blocked"]

    def test_without_its_word_its_loop_is_not_taken_for_a_tree(self, tracker: Tracker) -> None:
        assert tracker.document(None, 0) is None and tracker.looping

    def test_its_word_outlives_a_restart_and_a_lost_store(self, tracker: Tracker, fabric: Fabric) -> None:
        joined = as_stored(tracker.document(application(ring("a", "b", "c"), ["a", "b"]), 0))
        assert as_stored(tracker.document(None, 1))["blocked"] == joined["blocked"]
        again = Tracker(fabric, [OPENFLOW, ONE])
        again.heard(ONE, states(fabric, "de", "e-c", "c-e"))
        assert as_stored(again.document(joined, 2))["blocked"] == [["a", "b"], ["c", "e"]]

    def test_its_new_document_is_joined_again(self, tracker: Tracker) -> None:
        tracker.document(application(ring("a", "b", "c"), ["a", "b"]), 0)
        joined = as_stored(tracker.document(application(ring("a", "b", "c"), ["a", "c"]), 1))
        assert joined["blocked"] == [["a", "c"], ["d", "e"]]
        assert joined["version"] == 8

    def test_a_switch_of_both_forwards_where_both_say_so(self, tracker: Tracker, fabric: Fabric) -> None:
        tracker.heard(ONE, states(fabric, "abcde", "e-d"))
        joined = as_stored(tracker.document(application(ring("a", "b", "c"), ["a", "b"]), 0))
        assert joined["blocked"] == [["a", "b"], ["d", "e"]]

    def test_a_part_is_read_back_as_it_was_written(self) -> None:
        part = OpenFlowPart(frozenset("ab"), frozenset({Link("a", "b")}))
        assert OpenFlowPart.of({"sources": [], "openflow": part.to_dict()}) == part
        assert OpenFlowPart.of({"sources": []}) is None


class Enough(BaseException):
    """Ends a thread's loop."""


def test_a_source_whose_reader_cannot_be_made_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package that speaks SNMP may be missing, or broken."""
    told: list[Reading] = []

    def put(reading: Reading) -> None:
        told.append(reading)
        if len(told) == 2:
            raise Enough

    source = TreeSource("snmp", "127.0.0.1")
    watcher = Watcher(Tracker(ring("a", "b", "c"), [source]), SimpleNamespace())  # type: ignore[arg-type]  # it is not used
    monkeypatch.setattr(watcher, "_notices", SimpleNamespace(put=put))
    monkeypatch.setattr("controller.spanning_tree.watch.PERIOD_S", 0.0)
    monkeypatch.setitem(sys.modules, "controller.spanning_tree.snmp_switch", None)
    with pytest.raises(Enough):
        watcher._read(source)
    assert [reading.states for reading in told] == [None, None] and "ModuleNotFoundError" in told[0].problem


def test_an_unexpected_error_that_lasts_is_logged_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Reading] = []

    def put(reading: Reading) -> None:
        told.append(reading)
        if len(told) == 7:
            raise Enough

    def read() -> frozenset[PortState]:
        if len(told) < 5:
            raise LookupError("made to fail")
        return frozenset()

    watcher = Watcher(Tracker(ring("a", "b", "c"), [ONE]), SimpleNamespace())  # type: ignore[arg-type]  # it is not used
    monkeypatch.setattr(watcher, "_notices", SimpleNamespace(put=put))
    monkeypatch.setattr("controller.spanning_tree.watch.PERIOD_S", 0.0)
    monkeypatch.setattr("controller.spanning_tree.watch.reader", lambda source: read)
    with caplog.at_level("INFO", "baton.tree"), pytest.raises(Enough):
        watcher._read(ONE)
    first, last = caplog.records
    assert first.exc_info and "goes well again, after 5 failures" in last.getMessage()
    assert [reading.states for reading in told] == [None] * 5 + [frozenset()] * 2
