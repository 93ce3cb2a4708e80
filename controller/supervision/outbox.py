"""What the supervisor has to say: to the log at once, to the store as soon as it answers. An edge: the store."""

from __future__ import annotations

import contextlib
import logging
from collections import deque

from controller.store.store import EVENTS_KEPT, Store, StoreUnavailable

log = logging.getLogger("baton.supervisor")


class Outbox:
    """Events on their way to the store; those that it has not got wait, the newest `EVENTS_KEPT` of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unpublished: deque[tuple[str, str, str]] = deque(maxlen=EVENTS_KEPT)
        self.empty = False
        """Whether the store has got everything, as of the last `publish`."""

    def tell(self, kind: str, severity: str, text: str) -> None:
        """Logs an event, and publishes it."""
        log.log(logging.ERROR if severity == "error" else logging.INFO, "%s", text)
        self._unpublished.append((kind, severity, text))
        self.publish()

    def publish(self) -> None:
        """Publishes events that the store has not got, and restores what it has lost; later, while the store is away."""
        self.empty = False
        with contextlib.suppress(StoreUnavailable):
            self._store.connection.republish()
            while self._unpublished:
                self._store.publish_event(*self._unpublished[0])
                self._unpublished.popleft()
            self.empty = True
