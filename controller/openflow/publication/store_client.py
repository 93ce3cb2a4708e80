"""When the OpenFlow application talks to the store, and what it learns there. An edge: the store, the clock.

Only the two green threads of `StoreClient` wait for the store, so one that is slow or gone delays no switch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from controller.openflow.publication.publisher import Publisher
from controller.openflow.tables.forwarding import ControlAttachment
from controller.store.store import Store, StoreUnavailable
from protocol.timers import Mishaps

LOOK_S, LOOK_AT_MOST_S = 1.0, 10.0
"""How often the store is looked at for other controllers; where counters are read less often than that, as often as those."""
AGAIN_S = 0.25
PAUSE_S = 0.05
"""What comes meanwhile goes together."""

log = logging.getLogger("baton.openflow")


class Controllers(Protocol):
    """The part of `controller.election.controllers.Controllers` that is used here."""

    def others(self, now_ns: int) -> dict[str, tuple[str, str]]: ...


class StoreClient:
    """Publishes news, and knows where the coordinators are.

    Args:
        hub: the framework's green threads.
        store: None where there is none: nothing is published then, and nothing learned.
        controllers: those that share the store; None where there is no election.
        attachment: where the coordinator is, if there is one; `asks_address`: the store says its address.
        poll_ns: how often switches' counters are read.
        refused: kind and text of what was refused to connections, to be published.
        on_leader: called when another of `controllers` may lead.
        on_change: called when `attachment`, `standbys` or `informed` has changed.
    """

    def __init__(
        self,
        hub: Any,  # noqa: ANN401 -- of a framework that has no types
        store: Store | None,
        controllers: Controllers | None,
        attachment: ControlAttachment | None,
        *,
        asks_address: bool,
        poll_ns: int,
        refused: deque[tuple[str, str]],
        on_leader: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._store = store
        self._news = hub.Event()
        self.publisher = Publisher(store, self._news.set)
        self.attachment = attachment
        self.standbys: tuple[ControlAttachment, ...] = ()
        """Where the coordinators of other controllers are."""
        self._asks_address = asks_address and attachment is not None
        self.informed = not (store and self._asks_address)
        """Whether the store was asked for the coordinator's address, if it says it."""
        self._controllers = controllers
        self._refused = refused
        self._on_leader = on_leader
        self._on_change = on_change
        self._leader_changed = True
        self._mishaps = Mishaps(log.error, lambda: None)
        self._looked_s = 0.0
        self._every_s = LOOK_S if self._asks_address else max(LOOK_S, min(LOOK_AT_MOST_S, poll_ns / 1e9))

    def look(self) -> None:
        """Learns which controller leads, and where the others' coordinators are. May wait for the store."""
        if self._controllers is not None:
            self._on_leader()
            self._look_around(self._controllers)

    def disown_documents(self) -> None:
        """Another leads: if the store loses our documents, the leader's are the right ones."""
        self.publisher.disown_fabric()
        if self._store is not None:
            self._store.connection.disown("fabric", "ports")

    # -- green threads ---------------------------------------------------------------------------------------

    def run(self, active: Callable[[], bool]) -> None:
        """Talks to the store when there is news, and at times."""
        while active():
            self._news.wait(timeout=AGAIN_S if self.publisher.unpublished else self._every_s)
            self._news.clear()
            with self._mishaps.surviving("what is told to the store and learned there", time.monotonic_ns()):
                self.turn(time.monotonic())
            self._hub.sleep(PAUSE_S)

    def listen(self, active: Callable[[], bool]) -> None:
        """Waits until the store says that another controller leads, again and again."""
        while self._store is not None and active():
            with self._mishaps.surviving("listening to the store", time.monotonic_ns()), contextlib.suppress(StoreUnavailable):
                for _ in self._store.connection.subscribe(("leader",)):
                    self._leader_changed = True
                    self._news.set()
            self._hub.sleep(AGAIN_S)

    def turn(self, now_s: float) -> None:
        """Learns what may have changed, and publishes what is new."""
        looks = now_s - self._looked_s >= self._every_s
        if self._controllers is not None:
            if self._leader_changed or looks:
                self._leader_changed = False
                self._on_leader()
            if looks:
                self._look_around(self._controllers)
        self._looked_s = now_s if looks else self._looked_s
        while self._refused:
            kind, text = self._refused.popleft()
            self.publisher.event(kind, "warning", text, {})
        self.publisher.flush()
        if self.attachment is not None and self._asks_address:
            self._ask_address(self.attachment)

    def _look_around(self, controllers: Controllers) -> None:
        others = controllers.others(time.monotonic_ns())
        standbys = tuple(ControlAttachment.parse(*place) for _, place in sorted(others.items()))
        if standbys != self.standbys:
            self.standbys = standbys
            self._on_change()

    def _ask_address(self, attachment: ControlAttachment) -> None:
        mac = self.publisher.coordinator_mac(time.monotonic_ns())
        if not self.informed:
            self.informed = True
            self._on_change()
        if mac is not None and mac != attachment.mac:
            self.attachment = dataclasses.replace(attachment, mac=mac)
            log.info("the coordinator's address is %s", mac)
            self._on_change()
