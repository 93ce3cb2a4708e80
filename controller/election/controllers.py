"""The controllers that share a store, as one of them sees them: who leads, and whether one is ready. An edge: the store."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

from controller.store.store import Store, StoreUnavailable

FORGET_NS = 10_000_000_000


def name_of(run_dir: Path) -> str:
    """A controller's name among all: its machine's and its run directory's, which no other can have."""
    return f"{socket.gethostname()}:{run_dir}"


class Controllers:
    """As the controller `name` sees them."""

    def __init__(self, store: Store, name: str, *, standby: bool = False) -> None:
        self.name = name
        self.standby = standby
        self._store = store
        self._other_leads = standby
        self._others: dict[str, tuple[tuple[str, str], int]] = {}

    def other_leads(self) -> bool:
        """Whether another leads, or is to lead; while nobody does, or the store can't say, who did last."""
        with contextlib.suppress(StoreUnavailable):
            leader = self._store.leader()
            if leader is not None:
                self._other_leads = leader["name"] != self.name
        return self._other_leads

    def leader(self) -> tuple[str, int] | None:
        """Name and epoch of who leads; None when nobody does, or the store can't say."""
        with contextlib.suppress(StoreUnavailable):
            leader = self._store.leader()
            return None if leader is None else (leader["name"], leader["epoch"])
        return None

    def fabric(self) -> dict[str, Any] | None:
        """The fabric as the leader before published it; None when there is none, or the store can't say."""
        with contextlib.suppress(StoreUnavailable):
            return self._store.fabric()
        return None

    def others(self, now_ns: int) -> dict[str, tuple[str, str]]:
        """Of every other controller: where it is attached ("switch:port") and its MAC address. One that is not heard of for
        FORGET_NS is left out: a store that comes back empty takes some time to hear of them again."""
        with contextlib.suppress(StoreUnavailable):
            for name, told in self._store.controllers().items():
                if name != self.name:
                    self._others[name] = (told["attachment"], told["mac"]), now_ns
        self._others = {name: entry for name, entry in self._others.items() if now_ns - entry[1] < FORGET_NS}
        return {name: place for name, (place, _) in self._others.items()}

    def ready(self, pid: int) -> bool:
        """Whether our coordinator (this process) leads, or stands by."""
        with contextlib.suppress(StoreUnavailable):
            ours = self._store.controllers().get(self.name)
            return ours is not None and ours["pid"] == pid and (ours["leads"] or self.other_leads())
        return False
