"""A document in the store that can't be read keeps no other from its readers, and counts again when it is written anew."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from cli.main import main
from cli.operate.status import collect
from controller.coordinator.store_bridge import StoreBridge
from controller.store.feeds import DOCUMENTS, IN_PARTS
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from protocol.key import Key
from tests import needs
from tests.emulation.operating import wait_for
from webui.state.poller import Poller

pytestmark = needs.REDIS

PATIENCE_S = 20.0
HOSTS = {"00" * 8: {"name": "h1", "enrolled": 1, "macs": [], "revoked": 5}}


@pytest.fixture
def coordinator(server: PrivateRedis) -> Iterator[socket.socket]:
    """The coordinator's end of its store bridge's lines."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    bridge = StoreBridge(Store(server.url), theirs)
    with ours:
        threading.Thread(target=bridge.run, daemon=True).start()
        yield ours


def told(coordinator: socket.socket, *names: str) -> dict[str, object]:
    """What the bridge tells of these, once it has told all of them."""
    found: dict[str, object] = {}
    unread = b""
    while not set(names) <= found.keys():
        unread += coordinator.recv(1 << 20)
        *lines, unread = unread.split(b"\n")
        for line in lines:
            found |= json.loads(line)
    return {name: found[name] for name in names}


def write_nonsense(store: Store, document: str) -> None:
    def write(pipe: object) -> None:
        pipe.hset(f"baton:{document}", "json", "{not json")  # type: ignore[attr-defined]
        pipe.publish(f"baton:changed:{document}", document)  # type: ignore[attr-defined]

    store.connection.write(write)


def unreadable(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The documents of which the bridge has told that they can't be read."""
    return [line.split()[0] for line in caplog.messages if "can't be read" in line]


HASHES = ("policy", "status", "thresholds", "telemetry", "fabric", "ports", "queues", "hosts", "rotation", "member:7")
OTHERS = ("override", "members", "events", "audit", "refused", "slots")
CASES = (
    [(name, {"json": text, "version": "7", "at_ns": "1"}) for name in HASHES for text in ("{garbage", "[1,2]", b"\xff{}")]
    + [(name, {"json": "{}", "version": "y", "at_ns": "z"}) for name in ("policy", "thresholds", "fabric", "ports")]
    + [("fabric", {"=fabric.hosts x": text, "line": "a", "parts": "3", "version": "3"}) for text in ("garbage", '"x"')]
    + [(name, "of another type") for name in HASHES]
    + [(name, {"of": "another type"}) for name in OTHERS]
)


@pytest.mark.parametrize(("key", "value"), CASES)
def test_observers_see_all_but_what_can_not_be_read_and_are_told_its_key(
    store: Store, server: PrivateRedis, key: str, value: str | dict[str, str]
) -> None:
    store.publish_member(5, {"name": "h5"})
    store.publish_member(7, {"name": "h7"})
    looking, poller = Store(server.url), Poller(Store(server.url))
    before = looking.feeds.snapshot()
    with redis.Redis.from_url(server.url) as client:
        client.delete(f"baton:{key}")
        client.set(f"baton:{key}", value) if isinstance(value, str) else client.hset(f"baton:{key}", mapping=value)  # type: ignore[arg-type]
    store.publish_coflow(3, {"name": "shuffle"})
    for one in (looking.feeds.snapshot(), looking.feeds.snapshot(before), looking.feeds.snapshot(before, light=True)):
        assert one.members.get(5, {"name": "h5"}) == {"name": "h5"}
    looking = Store(server.url)
    found = collect(looking, None)
    feeds, commands = looking.feeds, looking.commands
    for read in (commands.queues, commands.hosts, commands.rotation, feeds.audit, feeds.refused, feeds.snapshot):
        read()
    feeds.slots_after(None)
    assert key == "members" or found["members"]["5"] == {"name": "h5"}
    assert looking.coflows() == {3: {"name": "shuffle"}}
    assert any(line.startswith(f"{key} in the store can't be read, ") for line in looking.connection.unread.lines())
    if key in (*DOCUMENTS, *IN_PARTS, "member:7", "members", "override"):
        assert any(line.startswith(f"{key} in the store") for line in poller.read(0).state["coordinator"]["warnings"])


@pytest.mark.parametrize("entry", [{"kind": "x"}, {"kind": "x", "severity": "info", "text": "y", "fields": "[garbage"}])
def test_an_event_that_can_not_be_read_says_so_among_the_others(store: Store, entry: dict[str, str]) -> None:
    store.publish_event("join", "info", "before")
    store.connection.write(lambda pipe: pipe.xadd("baton:events", entry))
    store.publish_event("join", "info", "after")
    first, wrong, last = store.events()
    assert (first["text"], last["text"]) == ("before", "after")
    assert wrong["kind"] == "unreadable" and wrong["text"] == f"the event {wrong['id']} in the store can't be read"


@pytest.mark.parametrize("key", ["policy", "fabric", "coflows", "hosts"])
def test_the_override_comes_through_beside_a_key_of_another_type(store: Store, server: PrivateRedis, key: str) -> None:
    store.connection.write(lambda pipe: pipe.set(f"baton:{key}", "x"))
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        threading.Thread(target=StoreBridge(Store(server.url), theirs).run, daemon=True).start()
        for word in ("free", "coordinate"):
            store.set_override(word)
            assert told(ours, "override") == {"override": word}


def test_baton_free_opens_the_gates_though_no_event_can_be_written(store: Store, server: PrivateRedis) -> None:
    store.connection.write(lambda pipe: pipe.set("baton:events", "x"))
    done = CliRunner().invoke(main, ["free", "--store", server.url])
    assert done.exit_code == 0 and "no event tells of it" in done.output
    assert store.override() == "free"


def test_a_change_of_the_key_is_not_begun_anew_where_its_last_step_can_not_be_read(
    store: Store, server: PrivateRedis, tmp_path: Path
) -> None:
    Key.generate(tmp_path / "key")
    write_nonsense(store, "rotation")
    done = CliRunner().invoke(main, ["key", "rotate", str(tmp_path / "key"), "--store", server.url])
    assert done.exit_code == 1 and "delete the key baton:rotation" in done.output
    assert not (tmp_path / "key.new").exists()


def test_a_fabric_that_can_not_be_read_is_written_anew_by_its_next_publication(store: Store) -> None:
    store.publish_fabric({"fabric": {"hosts": [{"name": "h1"}]}})
    store.connection.write(lambda pipe: pipe.hset("baton:fabric", "version", "y"))
    assert store.fabric() is None
    store.publish_fabric({"fabric": {"hosts": [{"name": "h2"}]}})
    assert store.fabric() == {"fabric": {"hosts": [{"name": "h2"}]}}


def test_a_policy_that_can_not_be_read_is_written_anew_by_a_change_of_it(store: Store) -> None:
    write_nonsense(store, "policy")
    store.change_policy(lambda policy: {"policy": "free", "before": policy})
    assert store.policy() == {"policy": "free", "before": None}
    assert store.connection.unread.lines() == []


def test_what_operators_write_comes_through_whatever_else_is_in_the_store(
    store: Store, coordinator: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    store.set_policy({"policy": "auto"})
    assert told(coordinator, "policy") == {"policy": {"policy": "auto"}}
    write_nonsense(store, "policy")
    write_nonsense(store, "policy")
    store.publish_coflow("shuffle-7", {})  # type: ignore[arg-type]  # an application's mistake
    store.set_override("free")
    store.commands.set_hosts(HOSTS)
    assert told(coordinator, "override", "hosts") == {"override": "free", "hosts": HOSTS}
    wait_for(lambda: len(unreadable(caplog)) == 2)
    assert sorted(unreadable(caplog)) == ["coflow:shuffle-7", "policy"], "each is told once"
    store.set_policy({"policy": "free"})
    assert told(coordinator, "policy") == {"policy": {"policy": "free"}}


def test_a_bridge_that_starts_beside_an_unreadable_document_tells_the_others_and_their_changes(
    store: Store, server: PrivateRedis
) -> None:
    store.set_override("free")
    for document in ("policy", "thresholds"):
        write_nonsense(store, document)
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        threading.Thread(target=StoreBridge(Store(server.url), theirs).run, daemon=True).start()
        assert told(ours, "override") == {"override": "free"}
        ours.sendall(b'{"leads": 7}\n')
        store.set_override("coordinate")
        assert told(ours, "override") == {"override": "coordinate"}
        store.publish_thresholds({"version": 5})
        ours.sendall(b'{"leads": 8}\n')
        assert told(ours, "thresholds") == {"thresholds": {"version": 5}}


def test_what_is_told_of_a_document_whose_version_is_no_number_helps(store: Store, server: PrivateRedis) -> None:
    store.connection.write(lambda pipe: pipe.hset("baton:policy", mapping={"json": "{}", "version": "y", "at_ns": "1"}))
    store.feeds.snapshot()
    (line,) = store.connection.unread.lines()
    assert "delete the key baton:policy" in line
    store.connection.write(lambda pipe: pipe.delete("baton:policy"))
    store.set_policy({"policy": "auto"})
    assert store.feeds.snapshot().documents["policy"] == {"policy": "auto"} and not store.connection.unread.lines()
