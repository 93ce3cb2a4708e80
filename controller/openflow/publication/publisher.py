"""What the OpenFlow application publishes, kept until the store has taken it. An edge: the store.

`fabric`, `ports` and `event` only remember; `flush` writes to the store. So a store that is slow or gone never delays a switch,
and when it comes back it gets the latest documents.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from controller.store.parts import Parts
from controller.store.store import StoreUnavailable

STATUS_PERIOD_NS = 1_000_000_000
EVENTS_KEPT = 256

log = logging.getLogger("baton.openflow")


class PublishingStore(Protocol):
    """The part of `controller.store.store.Store` that is used here."""

    def publish_parts(self, name: str, parts: Parts) -> None: ...

    @property
    def owes(self) -> bool: ...

    def settle(self) -> None: ...

    def publish_event(self, kind: str, severity: str, text: str, **fields: Any) -> None: ...  # noqa: ANN401 -- as Store

    def status(self) -> dict[str, Any] | None: ...


class Publisher:
    """Holds the latest documents and the last events for a store. Without a store it drops the events."""

    def __init__(self, store: PublishingStore | None, news: Callable[[], None] = lambda: None) -> None:
        """`news`: called when there is something to `flush`."""
        self._store = store
        self._news = news
        self._fabric: Parts | None = None
        self._fabric_told = True
        self._version = 0
        self._ports: Parts | None = None
        self._events: deque[tuple[str, str, str, dict[str, str]]] = deque(maxlen=EVENTS_KEPT)
        self._available = True
        self._asked_ns: int | None = None

    def fabric(self, parts: Parts) -> None:
        """Has the fabric published (the document in parts), with a version that grows, when it differs from the last one."""
        if self._fabric is None or self._fabric != {**parts, "version": self._version}:
            self._version += 1
            self._fabric = {**parts, "version": self._version}
            self._fabric_told = False
            self._news()

    def disown_fabric(self) -> None:
        """Another publishes the fabric from now on. When we do again, what we published before is not what the store has."""
        self._fabric, self._fabric_told = None, True

    def ports(self, parts: Parts) -> None:
        """Has the load of the ports published (the document in parts)."""
        self._ports = parts
        self._news()

    def event(self, kind: str, severity: str, text: str, fields: dict[str, str]) -> None:
        """Has an event published for operators; while the store is away, at most EVENTS_KEPT wait."""
        self._events.append((kind, severity, text, fields))
        self._news()

    @property
    def unpublished(self) -> bool:
        """Whether anything waits for `flush`, as while the store is away."""
        store = self._store
        return store is not None and (
            bool(self._events) or not self._fabric_told or self._ports is not None or store.owes
        )

    def flush(self) -> None:
        """Writes everything new to the store. May wait for it; never raises because of it."""
        if self._store is None:
            self._events.clear()
            return
        if not self.unpublished:
            return
        try:
            if not self._fabric_told and self._fabric is not None:
                told = self._fabric
                self._store.publish_parts("fabric", told)
                self._fabric_told = self._fabric is told
            if self._ports is not None:
                ports, self._ports = self._ports, None
                self._store.publish_parts("ports", ports)
            while self._events:
                kind, severity, text, fields = self._events[0]
                self._store.publish_event(kind, severity, text, **fields)
                self._events.popleft()
            self._store.settle()
            self._is_available(None)
        except StoreUnavailable as error:
            self._is_available(error)

    def coordinator_mac(self, now_ns: int) -> str | None:
        """The address that the coordinator publishes with its status. Asks the store once a second; None in between, and
        while the store has none."""
        if self._store is None or (self._asked_ns is not None and now_ns - self._asked_ns < STATUS_PERIOD_NS):
            return None
        self._asked_ns = now_ns
        try:
            status = self._store.status()
        except StoreUnavailable as error:
            self._is_available(error)
            return None
        mac = status.get("mac") if status else None
        return mac.lower() if isinstance(mac, str) else None

    def _is_available(self, error: StoreUnavailable | None) -> None:
        if error is not None and self._available:
            log.warning("%s", error)
        elif error is None and not self._available:
            log.info("the store is back")
        self._available = error is None
