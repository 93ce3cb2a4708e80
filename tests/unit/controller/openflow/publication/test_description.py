"""A network that is no fabric is told to operators; whatever else the application does goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from controller.openflow import framework
from controller.openflow.learned import FabricLearner
from controller.openflow.publication.description import FabricDescription
from controller.openflow.publication.publisher import Publisher
from controller.openflow.view import Switch, View
from tests.unit.controller.openflow.publication.test_publisher import Store

EVENT = SimpleNamespace(set=lambda: None, clear=lambda: None, wait=lambda: None)
HUB = SimpleNamespace(Event=lambda: EVENT, sleep=lambda _: None)


def network(*names: str) -> View:
    return View({dpid: Switch(dpid, name, {}) for dpid, name in enumerate(names, 1)}, (), frozenset(), {})


def once() -> Callable[[], bool]:
    turns: Iterator[bool] = iter([True, False])
    return lambda: next(turns)


def test_it_is_told_once_until_the_network_is_a_fabric_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "aside", lambda work, *arguments: work(*arguments))
    store = Store()
    publisher = Publisher(store)
    description = FabricDescription(HUB, FabricLearner(), publisher, lambda: True)
    told = []
    for view in (network("s1", "s1"), network("s1", "s1"), network("s1", "s2"), network("s1", "s1")):
        description.describe(view)
        description.run(once())
        publisher.flush()
        told.append([what[0] for what in store.taken])
        store.taken.clear()
    assert told == [["fabric_impossible"], [], ["fabric"], ["fabric_impossible"]]
