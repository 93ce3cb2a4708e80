"""The part of the store for a change of the fabric's key. An edge: Redis, by what `controller.store.store.Store` holds."""

from __future__ import annotations

from typing import Any


class StoreRotation:
    """One document; `Store` inherits it, and has `_publish` and `_document`."""

    def _publish(self, name: str, item: str, value: dict[str, Any]) -> None:
        raise NotImplementedError

    def _document(self, name: str) -> dict[str, Any] | None:
        raise NotImplementedError

    def set_rotation(self, step: str, old: str, new: str) -> None:
        """Publishes how far the change of the key is: see controller/members/key_rotation.py."""
        self._publish("rotation", "", {"step": step, "old": old, "new": new})

    def rotation(self) -> dict[str, Any] | None:
        """The last step of the last change of the key, or None when the key was never changed."""
        return self._document("rotation")
