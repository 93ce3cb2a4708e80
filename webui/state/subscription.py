"""A subscriber to the stream, and the messages and ids of the stream (WHATWG HTML, server-sent events)."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from webui.state.encoded import encoded

_ID = re.compile(r"[0-9]{1,15}-[0-9]{1,9}")


@dataclass(eq=False, slots=True)
class Subscription:
    """A subscriber to the stream: messages wait in `queue`, whose length the poller limits."""

    last_id: str | None
    queue: deque[bytes] = field(default_factory=deque)
    ready: threading.Event = field(default_factory=threading.Event)
    begun: bool = False
    _call: Callable[[], object] | None = None

    def take(self, timeout_s: float = 0.0) -> bytes:
        """The waiting messages, joined; empty if none came in time."""
        if not self.ready.wait(timeout_s):
            return b""
        self.ready.clear()
        found = []
        with contextlib.suppress(IndexError):  # the poller may empty the queue of a slow reader meanwhile
            while self.queue:
                found.append(self.queue.popleft())
        return b"".join(found)

    def call_when_ready(self, call: Callable[[], object]) -> None:
        """Calls this, in the poller's thread, whenever messages have come; at once if there are some."""
        self._call = call
        if self.ready.is_set():
            call()

    def put(self, messages: list[bytes]) -> None:
        """Adds messages; the poller calls this."""
        self.queue.extend(messages)
        if messages:
            self.ready.set()
            if self._call is not None:
                self._call()


def message(name: str, value: object, number: str | None = None) -> bytes:
    """A message of the stream (WHATWG HTML, server-sent events)."""
    head = f"event: {name}\n" if number is None else f"id: {number}\nevent: {name}\n"
    return b"%bdata: %b\n\n" % (head.encode(), encoded(value))


def ids(text: str | None) -> tuple[str | None, str | None]:
    """The ids of the last event and the last batch of slots in a message's id; None for a part that is not valid."""
    event_id, _, batch_id = (text or "").partition(",")
    return (event_id if _ID.fullmatch(event_id) else None), (batch_id if _ID.fullmatch(batch_id) else None)


def after(one: str, other: str | None) -> bool:
    """Whether an id of a Redis stream comes after another."""
    if other is None:
        return True
    return tuple(map(int, one.split("-"))) > tuple(map(int, other.split("-")))
