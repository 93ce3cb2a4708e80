"""The store for operators' commands. A command is carried out once and expires soon after; the conditions of queues and the
steps of a key's change are documents that stay. An edge: Redis, by a `Connection`.

Which keys there are: `controller.store.layout`. Unlike a document, a command is not restored when the store has lost it: the
operator's program waits for the answer, and gives the command again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.store.connection import Connection
from controller.store.layout import put


class Commands:
    """What `baton pfc`, `queue`, `key` and `host` tell the coordinator. Every method raises StoreUnavailable."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def change_queues(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Replaces the conditions of hosts' queues (controller/members/queue_conditions.py) by what `make` makes of them, as
        `Connection.change`."""
        self._connection.change("queues", lambda queues: make(queues or {}))

    def queues(self) -> dict[str, Any] | None:
        """The conditions of hosts' queues, or None when no operator ever set any."""
        return self._connection.document("queues")

    def publish_pfc_command(self, command: dict[str, Any]) -> int:
        """Gives the coordinator a command, {"host", "classes", "duration_ns"}; returns its number: the store's clock in us."""
        seconds, microseconds = self._connection.call(lambda client: client.time())
        number = int(seconds) * 10**6 + int(microseconds)
        self._connection.write(lambda pipe: put(pipe, "pfc_command", {str(number): command}))
        return number

    def pfc_commands(self) -> dict[int, dict[str, Any]]:
        """The commands of the last 10 s, by number."""
        return self._connection.numbered("pfc_command")

    def set_rotation(self, step: str, old: str, new: str) -> None:
        """Publishes the step that the change of the fabric's key has reached: see controller/members/key_rotation.py."""
        self._connection.publish("rotation", "", {"step": step, "old": old, "new": new})

    def rotation(self) -> dict[str, Any] | None:
        """The last step of the last change of the key, or None when the key was never changed."""
        return self._connection.document("rotation")

    def set_hosts(self, hosts: dict[str, Any]) -> None:
        """Publishes the hosts' enrolments, in full: see controller/members/enrolments.py."""
        self._connection.publish("hosts", "", hosts)

    def change_hosts(self, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> None:
        """Replaces the hosts' enrolments by what `make` makes of them, as `Connection.change`."""
        self._connection.change("hosts", make)

    def hosts(self) -> dict[str, Any] | None:
        """The hosts' enrolments, or None when no host was ever enrolled."""
        return self._connection.document("hosts")
