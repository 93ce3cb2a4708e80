"""The store against a real redis-server: documents, events and changes."""

from __future__ import annotations

import threading
import time

import pytest

from controller.store.private_redis import PrivateRedis
from controller.store.store import EVENTS_KEPT, Store, StoreUnavailable
from tests import needs
from tests.emulation.controller.store.private_server import kill, leases, redis_cli

pytestmark = needs.REDIS


class TestDocuments:
    """What one process publishes, another reads, with a version and an end."""

    def test_what_was_not_published_is_none(self, store: Store) -> None:
        assert (store.fabric(), store.ports(), store.status(), store.policy(), store.override()) == (None,) * 5
        assert store.members() == {} and store.events() == []

    def test_documents_come_back_as_they_were_published(self, server: PrivateRedis, store: Store) -> None:
        reader = Store(server.url)
        document = {"fabric": {"switches": ["s1"]}, "blocked": [["a", "b"]], "text": "grün"}
        store.publish_fabric(document)
        store.publish_ports({"s1": 1})
        store.publish_status({"pid": 7})
        store.set_policy({"slice_ns": 2})
        assert reader.fabric() == document
        assert (reader.ports(), reader.status(), reader.policy()) == ({"s1": 1}, {"pid": 7}, {"slice_ns": 2})

    def test_what_is_written_together_is_one_transaction(self, server: PrivateRedis, store: Store) -> None:
        store.publish_status({"pid": 7})

        def transactions() -> int:
            told = redis_cli(server, "info", "commandstats")
            return int(told.split("cmdstat_exec:calls=")[1].split(",")[0])

        before = transactions()
        with store.connection.together():
            store.publish_status({"pid": 8})
            for node in (16, 17):
                store.publish_member(node, {"name": f"h{node}"})
            store.forget_member(16)
            assert (store.status(), transactions()) == ({"pid": 7}, before)
        assert (store.status(), store.members(), transactions()) == ({"pid": 8}, {17: {"name": "h17"}}, before + 1)
        kill(server)
        with pytest.raises(StoreUnavailable), store.connection.together():
            store.publish_status({"pid": 9})

    def test_of_changes_at_one_moment_none_is_lost(self, server: PrivateRedis, store: Store) -> None:
        def count() -> None:
            own = Store(server.url)
            for _ in range(40):
                own.connection.change("queues", lambda known: {"count": (known or {"count": 0})["count"] + 1})
            own.close()

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.commands.queues() == {"count": 120} and store.version("queues") == 120

    def test_a_change_that_is_refused_changes_nothing(self, store: Store) -> None:
        store.commands.change_queues(lambda _: {"h1": {}})
        with pytest.raises(KeyError):
            store.connection.change("queues", lambda known: (known or {})["h2"])
        assert store.commands.queues() == {"h1": {}}

    def test_a_version_grows_with_every_publication(self, store: Store) -> None:
        versions = [store.version("fabric")]
        for _ in range(3):
            store.publish_fabric({})
            versions.append(store.version("fabric"))
        assert versions == [0, 1, 2, 3]

    @pytest.mark.parametrize(("key", "least"), [("ports", 25), ("status", 3), ("member:16", 8)])
    def test_what_says_that_something_lives_expires(self, server: PrivateRedis, store: Store, key: str, least: int) -> None:
        store.publish_ports({})
        store.publish_status({})
        store.publish_member(16, {})
        assert least <= int(redis_cli(server, "ttl", f"baton:{key}")) <= 30
        assert redis_cli(server, "ttl", "baton:members") == "-1"

    def test_members_are_listed_by_node_until_they_are_forgotten(self, store: Store) -> None:
        for node in (17, 16, 100):
            store.publish_member(node, {"name": f"h{node}"})
        assert list(store.members()) == [16, 17, 100]
        store.forget_member(17)
        assert list(store.members()) == [16, 100]

    def test_a_member_that_expired_is_not_listed(self, server: PrivateRedis, store: Store) -> None:
        store.publish_member(16, {})
        redis_cli(server, "del", "baton:member:16")
        assert store.members() == {}

    def test_all_keys_have_the_prefix(self, server: PrivateRedis, store: Store) -> None:
        store.publish_member(16, {})
        store.publish_event("up", "info", "up")
        store.set_override("free")
        leases(server, "one")[0].acquire("a", 0)
        keys = redis_cli(server, "keys", "*").split()
        assert keys and all(key.startswith("baton:") for key in keys)

    def test_an_override_is_one_of_two_words(self, store: Store) -> None:
        store.set_override("free")
        assert store.override() == "free"
        with pytest.raises(ValueError, match="override"):
            store.set_override("off")
        assert store.override() == "free"


class TestEvents:
    """The last events are kept, oldest first, with their own fields."""

    def test_events_come_oldest_first_with_their_fields(self, store: Store) -> None:
        store.publish_event("up", "info", "one", node=16)
        store.publish_event("override", "warning", "two")
        first, second = store.events()
        assert (first["kind"], first["severity"], first["text"], first["node"]) == ("up", "info", "one", 16)
        assert second["text"] == "two"
        assert abs(first["at_ms"] / 1000 - time.time()) < 60
        assert [event["text"] for event in store.events(1)] == ["two"]

    def test_no_more_than_the_limit_are_kept(self, server: PrivateRedis, store: Store) -> None:
        for number in range(EVENTS_KEPT + 5):
            store.publish_event("n", "debug", str(number))
        assert redis_cli(server, "xlen", "baton:events") == str(EVENTS_KEPT)
        assert store.events(1)[0]["text"] == str(EVENTS_KEPT + 4)

    def test_an_unknown_severity_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError, match="severity"):
            store.publish_event("up", "fatal", "")


class TestChanges:
    """A subscriber hears of every name once at the start, and then when it changes; never of the data."""

    def test_each_name_comes_at_the_start_and_then_on_change(self, server: PrivateRedis, store: Store) -> None:
        changes = Store(server.url).connection.subscribe(("policy", "override", "members"))
        assert sorted(next(changes) for _ in range(3)) == ["members", "override", "policy"]
        store.publish_fabric({})  # not subscribed to
        store.set_override("free")
        store.set_policy({"a": 1})
        store.publish_member(16, {})
        assert [next(changes) for _ in range(3)] == ["override", "policy", "members"]
        changes.close()  # type: ignore[attr-defined]  # a generator

    def test_a_lost_redis_ends_the_subscription_with_the_reason(self, server: PrivateRedis, store: Store) -> None:
        changes = store.connection.subscribe(("policy",))
        next(changes)
        threading.Timer(0.1, kill, (server,)).start()
        with pytest.raises(StoreUnavailable, match="can't be reached"):
            next(changes)
