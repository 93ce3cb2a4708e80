"""What a reader of everything gets when it looks again: what was published since, and nothing that is gone."""

from __future__ import annotations

import pytest

from controller.store import feeds
from controller.store.store import Store
from tests import needs

pytestmark = needs.REDIS


def test_only_members_that_were_published_since_have_changed(store: Store) -> None:
    for node in (16, 17, 18):
        store.publish_member(node, {"name": f"h{node}"})
    first = store.feeds.snapshot()
    assert list(first.members) == [16, 17, 18] and first.members_read.changed is None
    store.publish_member(17, {"name": "new"})
    second = store.feeds.snapshot(first)
    assert second.members_read.changed == {17} and second.members[17] == {"name": "new"}
    assert second.members[16] is first.members[16]
    third = store.feeds.snapshot(second)
    assert third.members_read.changed == frozenset() and third.members is second.members


def test_members_that_come_and_go_are_there_and_gone(store: Store) -> None:
    store.publish_member(16, {"name": "h1"})
    first = store.feeds.snapshot()
    store.publish_member(12, {"name": "h0"})
    second = store.feeds.snapshot(first)
    assert list(second.members) == [12, 16] and second.members_read.changed == {12}
    store.forget_member(16)
    third = store.feeds.snapshot(second)
    assert list(third.members) == [12] and third.members_read.changed == {16}


def test_a_clock_that_was_set_back_hides_a_member_for_seconds_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.publish_member(16, {"name": "h1"})
    first = store.feeds.snapshot()
    monkeypatch.setattr("controller.store.layout.time.time_ns", lambda: 10**18)
    store.publish_member(16, {"name": "other"})
    monkeypatch.undo()
    assert store.feeds.snapshot(first).members[16] == {"name": "h1"}
    monkeypatch.setattr(feeds, "WHOLE_NS", 0)
    found = store.feeds.snapshot(first)
    assert found.members[16] == {"name": "other"} and found.members_read.changed == {16}


def test_a_light_one_has_the_status_and_leaves_members_and_ports_as_they_were(store: Store) -> None:
    store.publish_member(16, {"name": "h1"})
    store.publish_ports({"links": []})
    first = store.feeds.snapshot()
    store.publish_member(16, {"name": "other"})
    store.publish_ports({"links": [1]})
    store.publish_status({"epoch": 7})
    light = store.feeds.snapshot(first, light=True)
    assert light.documents["status"] == {"epoch": 7}
    assert light.members is first.members and light.documents["ports"] == {"links": []}
    whole = store.feeds.snapshot(light)
    assert whole.documents["ports"] == {"links": [1]} and whole.members_read.changed == {16}
