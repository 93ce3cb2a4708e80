"""A store of schema 1 as it was recorded (tests/peers/schema_1), and Batons of two versions that share a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cli.main import main
from cli.operate.status import collect
from controller.coordinator.gathering import Gathering
from controller.coordinator.store_bridge import StoreBridge
from controller.store.connection import Connection
from controller.store.layout import READS, WRITES
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store, StoreUnavailable
from protocol.bodies.versions import Versions
from tests import needs
from tests.unit.protocol.protocol_strategies import PROPERTY
from webui.state.poller import Poller

RECORD: dict[str, tuple[str, Any]] = json.loads((Path(__file__).parents[3] / "peers" / "schema_1" / "store.json").read_text())
EXPIRING = 3600

pytestmark = needs.REDIS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    with PrivateRedis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def client(server: PrivateRedis) -> Iterator[Any]:
    made = redis.Redis(unix_socket_path=str(server.run_dir / "redis.sock"), decode_responses=True)
    made.flushall()
    yield made
    made.close()


@pytest.fixture
def recorded(client: Any) -> Any:  # noqa: ANN401 -- redis-py's
    """A store that holds what was recorded."""
    for key, (kind, value) in RECORD.items():
        if kind == "hash":
            client.hset(key, mapping=value)
        elif kind == "string":
            client.set(key, value)
        elif kind == "zset":
            client.zadd(key, dict(value))
        else:
            for number, entry in value:
                client.xadd(key, entry, id=number)
    return client


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORD[f"baton:{name}"][1]["json"])
    return found


class TestRecorded:
    """Coordinator, web server and commands read what that time's Baton wrote."""

    @pytest.mark.usefixtures("recorded")
    def test_every_document_is_read_as_it_was_written(self, server: PrivateRedis) -> None:
        store = Store(server.url)
        names = ("fabric", "ports", "status", "policy", "thresholds")
        assert [getattr(store, name)() for name in names] == [document(name) for name in names]
        assert store.members() == {node: document(f"member:{node}") for node in (16, 17)}
        assert store.override() == "coordinate" and store.commands.queues() == document("queues")
        assert store.commands.rotation() == document("rotation") and len(store.commands.pfc_commands()) == 1
        assert list(store.coflows().values()) == [{"name": "shuffle"}]
        assert store.controllers() == {"c1": document("controller:c1")}
        assert len(store.events()) == len(RECORD["baton:events"][1]) and store.feeds.audit()[-1]["by"] == "ada"
        assert store.feeds.refused() and store.feeds.slots_after(None) and store.sessions.lives("abc")
        store.close()

    @pytest.mark.usefixtures("recorded")
    def test_status_and_doctor_show_a_recorded_store(self, server: PrivateRedis) -> None:
        store = Store(server.url)
        found = collect(store, None)
        store.close()
        assert found["coordinator"]["leader"] == "c1" and len(found["members"]) == 2
        for options in ((), ("--wide",), ("--links",)):
            done = CliRunner().invoke(main, ["status", "--store", server.url, *options])
            assert done.exit_code == 0, done.output
        assert "h1" in CliRunner().invoke(main, ["doctor", "--hosts", "--store", server.url]).output

    @pytest.mark.usefixtures("recorded")
    def test_the_web_server_makes_its_state_of_it(self, server: PrivateRedis) -> None:
        store = Store(server.url)
        reading = Poller(store).read()
        store.close()
        assert {member["name"] for member in reading.state["members"]} == {"h1", "h2"}
        assert reading.snapshot.documents["policy"] == document("policy")

    @pytest.mark.usefixtures("recorded")
    def test_the_coordinator_is_told_it(self, server: PrivateRedis, monkeypatch: pytest.MonkeyPatch) -> None:
        import socket

        ours, theirs = socket.socketpair()
        store = Store(server.url)
        StoreBridge(store, theirs)._look()
        store.close()
        told: dict[str, Any] = {}
        gathering = Gathering(lambda line, _: told.update(line))
        for line in map(json.loads, ours.recv(1 << 20).splitlines()):
            told |= line
            if "parts" in line:
                gathering.documents["parts"](line["parts"], 0)
        assert told["fabric"] == document("fabric") and told["policy"] == document("policy")
        assert told["rotation"] == document("rotation") and told["override"] == "coordinate"
        assert {"ports", "coflows", "queues", "pfc"} <= told.keys()

    def test_what_that_time_read_is_still_written(self) -> None:
        """Fields are added, and none that an earlier Baton reads is taken away, as long as the schema is the same."""
        from tests.unit.controller.coordinator.test_status_document import Lines, coordinator, documents

        lines = Lines()
        links, status, controller, told = documents(coordinator(lines), lines, 0)
        assert document("status").keys() <= (status["status"] | links).keys()  # joined while such a controller is there
        assert document("controller:c1").keys() <= controller["controller"][1].keys()
        assert document("member:16").keys() - told["members"][0][1].keys() <= {"regulated"}


class TestTwoVersions:
    """A Baton of the next version (reads one more schema), and of the one after (writes it), beside this one."""

    def test_this_one_reads_what_it_writes_and_one_back(self) -> None:
        assert READS.speaks(WRITES) and READS.lowest >= max(1, WRITES - 1)

    def test_a_standby_that_reads_a_newer_schema_shares_the_store_with_a_leader_that_does_not(
        self, server: PrivateRedis, client: Any  # noqa: ANN401 -- redis-py's
    ) -> None:
        leader = Connection(server.url, reads=Versions(1, 1), writes=1)
        standby = Connection(server.url, reads=Versions(1, 2), writes=1)
        leader.publish("policy", "", {"policy": "free"})
        assert standby.document("policy") == {"policy": "free"}
        standby.publish("policy", "", {"policy": "auto"})
        assert leader.document("policy") == {"policy": "auto"} and client.hget("baton:schema", "version") == "1"
        leader.close()
        standby.close()

    def test_the_next_but_one_writes_it_and_the_next_reads_it_and_this_one_says_what_to_do(
        self, server: PrivateRedis, client: Any  # noqa: ANN401 -- redis-py's
    ) -> None:
        first = Connection(server.url, reads=Versions(1, 1), writes=1)
        following = Connection(server.url, reads=Versions(1, 2), writes=1)
        following.publish("policy", "", {"policy": "free"})
        third = Connection(server.url, reads=Versions(1, 2), writes=2)
        third.publish("policy", "", {"policy": "auto"})
        assert client.hget("baton:schema", "version") == "2"
        following.publish("policy", "", {"policy": "hybrid"})
        assert third.document("policy") == {"policy": "hybrid"}
        assert client.hget("baton:schema", "version") == "2", "it never falls"
        with pytest.raises(StoreUnavailable, match=r"holds schema 2, this Baton reads 1: upgrade Baton on this machine"):
            first.document("policy")
        with pytest.raises(StoreUnavailable, match=r"holds schema 2, this Baton reads 3 to 4: upgrade one version at a time"):
            Connection(server.url, reads=Versions(3, 4), writes=3).publish("policy", "", {"policy": "free"})
        assert third.document("policy") == {"policy": "hybrid"}

    @given(st.integers(1, 5), st.integers(0, 1), st.integers(1, 5), st.integers(0, 1))
    @PROPERTY
    def test_two_that_read_each_other_work_and_two_that_do_not_are_told_apart(
        self, server: PrivateRedis, one: int, one_ahead: int, other: int, other_ahead: int
    ) -> None:
        plain = redis.Redis(unix_socket_path=str(server.run_dir / "redis.sock"))
        plain.flushall()
        plain.close()
        a = Connection(server.url, reads=Versions(max(1, one - 1), one + one_ahead), writes=one)
        b = Connection(server.url, reads=Versions(max(1, other - 1), other + other_ahead), writes=other)
        a.publish("policy", "", {"policy": "a"})
        if max(1, other - 1) <= one <= other + other_ahead:
            assert b.document("policy") == {"policy": "a"}
            b.publish("policy", "", {"policy": "b"})
        else:
            with pytest.raises(StoreUnavailable, match=f"schema {one}, this Baton reads"):
                b.document("policy")
        a.close()
        b.close()
