"""A document in the store that can't be read keeps no other from the coordinator, and counts again when it is written anew."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from controller.coordinator.store_bridge import StoreBridge
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from tests.emulation.operating import wait_for

pytestmark = needs.REDIS

PATIENCE_S = 5.0
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
