"""What the OpenFlow application publishes waits until the store has taken it, and nothing is looked at in vain."""

from __future__ import annotations

from typing import Any

from controller.openflow.publication.publisher import Publisher
from controller.store.store import StoreUnavailable


class Store:
    """A store that may be away."""

    def __init__(self) -> None:
        self.away = False
        self.taken: list[Any] = []

    def _take(self, *what: object, **_: object) -> None:
        if self.away:
            raise StoreUnavailable("away")
        self.taken.append(what)

    publish_parts = publish_event = _take
    owes = False

    def settle(self) -> None:
        pass

    def status(self) -> None:
        return None


def test_there_is_news_until_the_store_has_taken_it() -> None:
    store, rung = Store(), list[bool]()
    publisher = Publisher(store, lambda: rung.append(publisher.unpublished))
    assert not publisher.unpublished
    publisher.fabric({"fabric": 1})
    publisher.ports({"links": []})
    publisher.event("role", "info", "text", {})
    assert rung == [True] * 3
    store.away = True
    publisher.flush()
    assert publisher.unpublished
    store.away = False
    publisher.flush()
    assert not publisher.unpublished and len(store.taken) == 3
    publisher.fabric({"fabric": 1})
    assert not publisher.unpublished and len(rung) == 3  # the same as before is no news


def test_without_a_store_nothing_waits() -> None:
    publisher = Publisher(None)
    publisher.event("role", "info", "text", {})
    publisher.fabric({"fabric": 1})
    assert not publisher.unpublished
