"""The fabric and the ports in the store: what changes is written and read, whoever dies, takes over, or loses what."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from controller.store import parted
from controller.store.layout import PREFIX
from controller.store.parts import join
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store, StoreUnavailable
from tests import needs

pytestmark = needs.REDIS


@pytest.fixture
def client(server: PrivateRedis) -> Iterator[Any]:
    made = redis.Redis(unix_socket_path=str(server.run_dir / "redis.sock"), decode_responses=True)
    yield made
    made.close()


@pytest.fixture
def other(server: PrivateRedis) -> Iterator[Store]:
    made = Store(server.url)
    yield made
    made.close()


def document(hosts: int, *, version: int = 1, rate: int = 10**9) -> dict[str, Any]:
    """A fabric document of so many hosts, twenty at a switch, as the application makes it."""
    names = [f"s{at // 20 + 1}:p{at % 20 + 1}" for at in range(hosts)]
    switches = sorted({name.partition(":")[0] for name in names})
    links = [(name.partition(":")[0], name) for name in names]
    ways = [way for a, b in links for way in ((a, b), (b, a))]
    rates = {"rate_bps": rate, "reverse_rate_bps": rate}
    fabric = {
        "switches": [{"name": name, "dpid": int(name[1:]), "priority": 32768} for name in switches],
        "hosts": [{"name": name, "addresses": ["10.1.2.3"], "mac": "02:00:00:00:00:01"} for name in names],
        "links": [{"a": a, "b": b, **rates, "a_port": b[-2:], "b_port": None} for a, b in links],
    }
    hosts_at = [
        {"name": b, "switch": a, "port": b[-2:], "macs": ["02:00:00:00:00:01"], "addresses": ["10.1.2.3"]} for a, b in links
    ]
    rows = [{"source": a, "target": b, "capacity_bps": rate, "from": "port speed"} for a, b in ways]
    return {"fabric": fabric, "blocked": [["s1", "s2"]], "hosts": hosts_at, "ports": {}, "links": rows, "version": version}


def same(found: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    def sort(value: Any) -> Any:  # noqa: ANN401 -- JSON
        if isinstance(value, dict):
            return {name: sort(its) for name, its in value.items()}
        return sorted(map(json.dumps, value)) if isinstance(value, list) else value

    return bool(sort(found) == sort(wanted))


def sent(client: Any, act: Any) -> int:  # noqa: ANN401 -- redis-py's; any call
    """How many bytes Redis is sent meanwhile."""
    before = client.info("stats")["total_net_input_bytes"]
    act()
    return int(client.info("stats")["total_net_input_bytes"]) - before


class TestSmall:
    """A change is written and read as what has changed."""

    def test_one_more_host_among_4800_writes_and_reads_less_than_8_kilobytes(
        self, store: Store, other: Store, client: Any  # noqa: ANN401 -- redis-py's
    ) -> None:
        store.publish_fabric(document(4_800))
        known = other.parts("fabric")
        assert sent(client, lambda: store.publish_fabric(document(4_801, version=2))) < 8_000
        read = client.info("stats")["total_net_output_bytes"]
        after = other.parts("fabric", known)
        assert client.info("stats")["total_net_output_bytes"] - read < 16_000
        assert known is not None and after is not None and (known.version, after.version) == (1, 2)
        assert same(join(after.parts), document(4_801, version=2))
        assert other.parts("fabric", after) is after

    def test_ports_that_do_not_change_are_a_publication_of_nothing(self, store: Store, client: Any) -> None:  # noqa: ANN401
        loads = {"links": [{"source": f"h{at}", "target": "s1", "load_bps": 1, "dropped": 0} for at in range(1_000)]}
        store.publish_ports(loads)
        known = store.parts("ports")
        assert sent(client, lambda: store.publish_ports(loads)) < 1_000
        after = store.parts("ports", known)
        assert after is not None and known is not None and after.version == known.version + 1
        assert 25 <= client.ttl(f"{PREFIX}ports") <= 30

    def test_a_hash_holds_no_more_changes_than_are_kept(self, store: Store, client: Any) -> None:  # noqa: ANN401
        for at in range(parted.KEPT + 10):
            store.publish_fabric(document(1, version=at))
        assert sum(field.startswith("+") for field in client.hkeys(f"{PREFIX}fabric")) <= parted.KEPT


class TestMissed:
    """Who missed changes, or finds another writer's, reads all once."""

    @pytest.mark.parametrize("missed", [1, 15, 16, 17, 40, 64, 65, 200])
    def test_any_number_of_changes_may_be_missed(self, store: Store, other: Store, missed: int) -> None:
        store.publish_fabric(document(3, version=0))
        known = other.parts("fabric")
        for at in range(missed):
            store.publish_fabric(document(3 + at % 5, version=at + 1))
        found = other.parts("fabric", known)
        assert found is not None and found.version == missed + 1
        assert same(join(found.parts), document(3 + (missed - 1) % 5, version=missed))

    def test_a_large_change_is_not_kept_and_all_is_read(self, store: Store, other: Store, client: Any) -> None:  # noqa: ANN401
        store.publish_fabric(document(2_000))
        known = other.parts("fabric")
        store.publish_fabric(document(2_000, rate=10**8))
        assert not any(field.startswith("+") for field in client.hkeys(f"{PREFIX}fabric"))
        found = other.parts("fabric", known)
        assert found is not None and same(join(found.parts), document(2_000, rate=10**8))

    def test_another_controllers_application_takes_over(self, store: Store, other: Store, server: PrivateRedis) -> None:
        reader = Store(server.url)
        store.publish_fabric(document(40, version=1))
        store.publish_fabric(document(41, version=2))
        known = reader.parts("fabric")
        other.publish_fabric(document(30, version=1))
        known = reader.parts("fabric", known)
        assert known is not None and known.version == 3 and same(join(known.parts), document(30, version=1))
        store.publish_fabric(document(42, version=3))  # an old leader, for a moment
        other.publish_fabric(document(31, version=2))
        known = reader.parts("fabric", known)
        assert known is not None and same(join(known.parts), document(31, version=2))
        reader.close()

    def test_a_publication_of_unknown_outcome_is_made_anew(self, store: Store, other: Store, monkeypatch: Any) -> None:  # noqa: ANN401
        store.publish_fabric(document(3))
        known = other.parts("fabric")
        real = store.connection.replace

        def lose(key: str, fill: Any) -> None:  # noqa: ANN401 -- as Connection
            real(key, fill)
            raise StoreUnavailable("the answer was lost")

        monkeypatch.setattr(store.connection, "replace", lose)
        with pytest.raises(StoreUnavailable):
            store.publish_fabric(document(4))
        monkeypatch.undo()
        store.publish_fabric(document(5))
        found = other.parts("fabric", known)
        assert found is not None and same(join(found.parts), document(5))

    def test_a_store_that_was_lost_gets_all_again(self, store: Store, other: Store, client: Any) -> None:  # noqa: ANN401
        store.publish_fabric(document(3))
        store.publish_fabric(document(4))
        known = other.parts("fabric")
        client.flushall()
        assert other.parts("fabric", known) is None
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        store.connection.republish()
        found = other.parts("fabric", known)
        assert found is not None and same(join(found.parts), document(4))
        store.publish_fabric(document(5))
        found = other.parts("fabric", found)
        assert found is not None and same(join(found.parts), document(5))

    def test_a_store_that_was_emptied_gets_all_with_the_next_change(self, store: Store, client: Any) -> None:  # noqa: ANN401
        store.publish_fabric(document(3))
        client.flushall()
        store.publish_fabric(document(4))
        assert same(store.fabric(), document(4))


def put_whole(client: Any, name: str, value: dict[str, Any]) -> None:  # noqa: ANN401 -- redis-py's
    """What a Baton that knows no parts does."""
    key = PREFIX + name
    with client.pipeline(transaction=True) as pipe:
        pipe.hset(key, mapping={"json": json.dumps(value), "at_ns": time.time_ns()})
        pipe.hincrby(key, "version", 1)
        pipe.publish(f"{PREFIX}changed:{name}", name)
        pipe.execute()


class TestElders:
    """A controller of the version before writes the fabric whole, and reads nothing else."""

    def test_what_it_writes_is_read(self, store: Store, client: Any) -> None:  # noqa: ANN401
        put_whole(client, "fabric", document(3))
        known = store.parts("fabric")
        assert known is not None and same(join(known.parts), document(3))
        assert store.parts("fabric", known) is known
        put_whole(client, "fabric", document(4))
        known = store.parts("fabric", known)
        assert known is not None and same(join(known.parts), document(4))
        store.publish_fabric(document(5))
        known = store.parts("fabric", known)
        assert known is not None and known.version == 3 and same(join(known.parts), document(5))
        put_whole(client, "fabric", document(6))
        assert same(store.fabric(), document(6))
        store.publish_fabric(document(7))
        assert same(store.fabric(), document(7))

    def test_it_finds_the_whole_while_it_is_there_and_seldom(
        self, store: Store, other: Store, client: Any, monkeypatch: Any  # noqa: ANN401 -- redis-py's; pytest's
    ) -> None:
        clock = [100.0]
        monkeypatch.setattr("controller.store.parted.time.monotonic", lambda: clock[0])

        def whole() -> Any:  # noqa: ANN401 -- JSON
            text = client.hget(f"{PREFIX}fabric", "json")
            return None if text is None else json.loads(text)

        store.publish_fabric(document(1))
        assert whole() is None and not store.owes
        other.publish_controller("old", {"schemas": [1, 1]})
        clock[0] += parted.LOOK_S
        store.publish_fabric(document(2))
        assert same(whole(), document(2)) and not store.owes
        known = other.parts("fabric")
        store.publish_fabric(document(3))
        assert same(whole(), document(2)) and store.owes
        store.settle()
        assert store.owes, "it is not due"
        after = other.parts("fabric", known)
        clock[0] += parted.WHOLE_S
        store.settle()
        assert same(whole(), document(3)) and not store.owes
        assert other.parts("fabric", after) is after, "nothing was published"
        client.delete(f"{PREFIX}controller:old")
        clock[0] += parted.LOOK_S
        store.publish_fabric(document(4))
        assert whole() is None and same(store.fabric(), document(4))
