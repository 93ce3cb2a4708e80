"""What the store bridge tells in parts reaches the coordinator's parts whole, also one that stood by meanwhile."""

from __future__ import annotations

import json
import socket
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.coordinator.candidate import CachedLines
from controller.coordinator.gathering import PIECE, UNUSED, Gathered, Gathering, lines
from controller.members.part import Part, Parts
from controller.processes.jsonlines import JsonLines
from controller.store.parts import join, split
from tests.unit.controller.store.test_parts import FABRICS
from tests.unit.protocol.protocol_strategies import PROPERTY


class Listener(Part):
    """A part that knows the old lines alone."""

    def __init__(self) -> None:
        self.documents = dict.fromkeys(("fabric", "ports"), self._told)
        self.told: list[dict[str, Any]] = []

    def _told(self, document: dict[str, Any], _: int) -> None:
        self.told.append(document)


def listening() -> tuple[Parts, Listener]:
    parts, listener = Parts(), Listener()
    parts.add(Gathering(parts.take), listener)
    return parts, listener


def needed(document: dict[str, Any]) -> dict[str, Any]:
    return join(split("fabric", {name: value for name, value in document.items() if name not in UNUSED["fabric"]}))


@given(st.lists(FABRICS, min_size=1, max_size=5))
@PROPERTY
def test_after_each_change_the_parts_have_the_whole_document(documents: list[dict[str, Any]]) -> None:
    parts, listener = listening()
    known: dict[str, Any] = {}
    for at, document in enumerate(documents, 1):
        now = split("fabric", document)
        for line in lines("fabric", known, now):
            parts.take(json.loads(json.dumps(line)), 0)
        known = now
        assert len(listener.told) == at and listener.told[-1] == json.loads(json.dumps(needed(document)))


def test_a_large_document_comes_in_lines_of_a_few_kilobytes_and_a_host_in_one() -> None:
    hosts = [{"name": f"s1:p{at}", "addresses": ["10.0.0.1"], "mac": "02:00:00:00:00:01"} for at in range(1_000)]
    before = split("fabric", {"fabric": {"hosts": hosts}})
    told = list(lines("fabric", {}, before))
    assert len(told) == -(-len(before) // PIECE) and max(len(json.dumps(line)) for line in told) < 16_000
    parts, listener = listening()
    for line in told[:-1]:
        parts.take(line, 0)
    assert not listener.told
    parts.take(told[-1], 0)
    assert len(listener.told[0]["fabric"]["hosts"]) == 1_000
    (change,) = lines("fabric", before, split("fabric", {"fabric": {"hosts": hosts[1:]}}))
    assert len(json.dumps(change)) < 200


def test_a_reading_of_ports_that_are_as_they_were_is_told() -> None:
    parts, listener = listening()
    loads = split("ports", {"links": [{"source": "h1", "target": "s1", "load_bps": 1}], "ports": {"s1:p1": {}}})
    for known in ({}, loads):
        for line in lines("ports", known, loads):
            parts.take(line, 0)
    assert listener.told == [{"links": [{"source": "h1", "target": "s1", "load_bps": 1}]}] * 2


def test_one_that_stood_by_finds_all_when_it_leads() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        bridge, cached = JsonLines(theirs), CachedLines(JsonLines(ours))
        first = split("fabric", {"fabric": {"hosts": [{"name": "h1"}, {"name": "h2"}]}})
        then = split("fabric", {"fabric": {"hosts": [{"name": "h2"}, {"name": "h3"}]}})
        for line in (*lines("fabric", {}, first), {"override": "free"}, *lines("fabric", first, then)):
            bridge.write(line)
        cached.read()
        parts, listener = listening()
        for line in cached.latest():
            parts.take(line, 0)
        assert listener.told == [{"fabric": {"hosts": [{"name": "h2"}, {"name": "h3"}]}}]
        assert {"override": "free"} in cached.latest()


def test_who_takes_office_in_the_middle_of_a_change_waits_for_its_end() -> None:
    hosts = [{"name": f"s1:p{at}", "addresses": ["10.0.0.1"], "mac": "02:00:00:00:00:01"} for at in range(200)]
    whole = {"fabric": {"hosts": hosts}}
    told = list(lines("fabric", {}, split("fabric", whole)))
    heard = Gathered()
    for line in reversed(told[1:]):
        heard.take(line["parts"] | {"more": True})
    parts, listener = listening()
    for line in heard.whole():
        parts.take(line, 0)
    assert not listener.told
    parts.take(told[0] | {"parts": told[0]["parts"] | {"more": False}}, 0)
    assert len(listener.told) == 1 and len(listener.told[0]["fabric"]["hosts"]) == 200
