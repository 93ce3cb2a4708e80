"""The part of the store for operators' commands: said once, obeyed once, void soon after. And for conditions, which stay.

An edge: Redis, by the client that `controller.store.store.Store` holds. What is where: `controller.store.layout`. Unlike a
document a command is never put back when the store has lost it: who gave it waits for the answer, and gives it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from controller.store.layout import PREFIX, SETS, put

T = TypeVar("T")


class StoreCommands:
    """Commands by number; `Store` inherits it, and has `_call` and `_write`."""

    def _call(self, work: Callable[[Any], T]) -> T:
        raise NotImplementedError

    def _write(self, fill: Callable[[Any], None]) -> None:
        raise NotImplementedError

    def _publish(self, name: str, item: str, value: dict[str, Any]) -> None:
        raise NotImplementedError

    def _document(self, name: str) -> dict[str, Any] | None:
        raise NotImplementedError

    def set_queues(self, queues: dict[str, Any]) -> None:
        """Publishes the conditions of hosts' queues, in full: see controller/members/queue_conditions.py."""
        self._publish("queues", "", queues)

    def queues(self) -> dict[str, Any] | None:
        """The conditions of hosts' queues, or None when nobody ever set any."""
        return self._document("queues")

    def publish_pfc_command(self, command: dict[str, Any]) -> int:
        """Gives the coordinator a command, {"host", "classes", "duration_ns"}, and returns its number: the store's clock."""
        seconds, microseconds = self._call(lambda client: client.time())
        number = int(seconds) * 10**6 + int(microseconds)
        self._write(lambda pipe: put(pipe, "pfc_command", str(number), command))
        return number

    def pfc_commands(self) -> dict[int, dict[str, Any]]:
        """The commands of the last seconds, by number."""

        def read(client: Any) -> dict[int, dict[str, Any]]:  # noqa: ANN401 -- see Store.__init__
            items = sorted(client.zrange(PREFIX + SETS["pfc_command"], 0, -1), key=int)
            texts = [client.hget(f"{PREFIX}pfc_command:{item}", "json") for item in items]
            return {int(item): json.loads(text) for item, text in zip(items, texts, strict=True) if text is not None}

        return self._call(read)
