"""The hosts' enrolments between the store and a leader: neither takes away what the other knows."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.coordinator.store_bridge import StoreBridge
from controller.members.admission import Admission
from controller.members.enrolments import Enrolments
from controller.members.host_keys import HostKeys
from controller.members.registry import Members
from protocol.key import Key
from protocol.keyring import KeyRing
from protocol.keys.hosts import Master


class Commands:
    """The store's document of the hosts, as JSON carries it."""

    def __init__(self) -> None:
        self.text = "{}"

    def set_hosts(self, hosts: dict[str, Any]) -> None:
        self.text = json.dumps(hosts)

    def change_hosts(self, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> None:
        self.set_hosts(make(self.hosts()))

    def hosts(self) -> dict[str, Any]:
        return dict(json.loads(self.text))

    def revoke(self, name: str) -> None:
        """As `baton host revoke`, on a machine whose file the leader does not see."""
        known = Enrolments()
        known.merge(self.hosts())
        known.revoke(name, 100)
        self.change_hosts(known.joined)


class World:
    """A leader with its bridge, and the store."""

    def __init__(self, directory: Path) -> None:
        self.commands = Commands()
        self.written: list[dict[str, Any]] = []
        self.enrolments = Enrolments()
        keys = HostKeys(KeyRing(Master(Key(bytes(32)))), self.enrolments)
        self.admission = Admission(
            keys, self.enrolments, directory / "key", Members(), lambda *_: None, self.written.append
        )
        self.ends = socket.socketpair()
        store: Any = SimpleNamespace(commands=self.commands)
        self.bridge = StoreBridge(store, self.ends[0])
        hosts = Enrolments()
        for number in (1, 2):
            hosts.add(bytes([number]) * 24, f"h{number}", (f"02:00:00:00:00:0{number}",), number)
        self.commands.set_hosts(hosts.document())
        self.admission.take(self.commands.hosts(), 0)

    def revoked(self) -> list[str]:
        return sorted(one["name"] for one in self.commands.hosts().values() if one["revoked"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for end in made.ends:
        end.close()


def test_a_leader_writes_nothing_back_that_the_store_has(world: World) -> None:
    world.commands.revoke("h1")
    world.admission.take(world.commands.hosts(), 0)
    assert world.written == []


def test_what_an_operator_writes_while_the_leader_does_is_not_lost(world: World) -> None:
    """The leader tells the store what it read in its file, when a revocation has just come there."""
    told = world.enrolments.document()
    world.commands.revoke("h2")
    world.bridge._to_store({"hosts": told})
    assert world.revoked() == ["h2"]
