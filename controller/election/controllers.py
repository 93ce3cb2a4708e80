"""What one controller reads in the store of all: which one leads, where the others are, whether ours is ready. An edge: the
store."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

from controller.store.store import Store, StoreUnavailable

FORGET_NS = 10_000_000_000


def name_of(run_dir: Path) -> str:
    """A controller's unique name: its machine's and its run directory's."""
    return f"{socket.gethostname()}:{run_dir}"


class Controllers:
    """The controllers that share a store, seen by the controller `name`."""

    def __init__(self, store: Store, name: str, *, standby: bool = False) -> None:
        self.name = name
        self.standby = standby
        self._store = store
        self._other_leads = standby
        self._others: dict[str, tuple[tuple[str, str], int]] = {}

    def other_leads(self) -> bool:
        """Whether another controller leads, or is expected to. The last answer holds while none leads or the store is away."""
        with contextlib.suppress(StoreUnavailable):
            leader = self._store.leader()
            if leader is not None:
                self._other_leads = leader["name"] != self.name
        return self._other_leads

    def leader(self) -> tuple[str, int] | None:
        """Name and epoch of the leader; None when there is none, or the store does not answer."""
        with contextlib.suppress(StoreUnavailable):
            leader = self._store.leader()
            return None if leader is None else (leader["name"], leader["epoch"])
        return None

    def fabric(self) -> dict[str, Any] | None:
        """The fabric as the last leader published it; None when there is none, or the store does not answer."""
        with contextlib.suppress(StoreUnavailable):
            return self._store.fabric()
        return None

    def others(self, now_ns: int) -> dict[str, tuple[str, str]]:
        """Where every other controller is attached ("switch:port") and its MAC address. A controller stays in the answer for
        FORGET_NS after the store named it last: in a store that has lost its data it appears again only after some time."""
        with contextlib.suppress(StoreUnavailable):
            for name, told in self._store.controllers().items():
                place = told.get("attachment"), told.get("mac")
                if name != self.name and all(isinstance(word, str) for word in place):  # else another version's, or none
                    self._others[name] = (str(place[0]), str(place[1])), now_ns
        self._others = {name: entry for name, entry in self._others.items() if now_ns - entry[1] < FORGET_NS}
        return {name: place for name, (place, _) in self._others.items()}

    def ready(self, pid: int) -> bool:
        """Whether our coordinator (this process) leads, or stands by."""
        with contextlib.suppress(StoreUnavailable):
            ours = self._store.controllers().get(self.name)
            return ours is not None and ours["pid"] == pid and (ours["leads"] or self.other_leads())
        return False
