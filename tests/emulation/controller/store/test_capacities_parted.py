"""What the links carry, as the store bridge keeps it in the store: apart from the status, and written when it changes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from controller.coordinator.store_bridge import StoreBridge
from controller.store import parted
from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs

pytestmark = needs.REDIS

ROWS = [{"source": f"s{at}", "target": f"s{at}:p1", "capacity_bps": 10**9, "from": "port speed"} for at in range(2_000)]


@pytest.fixture
def client(server: PrivateRedis) -> Iterator[Any]:
    made = redis.Redis(unix_socket_path=str(server.run_dir / "redis.sock"), decode_responses=True)
    yield made
    made.close()


class Bridge:
    """A leader's store bridge."""

    def __init__(self, url: str) -> None:
        self.store = Store(url)
        self.bridge = StoreBridge(self.store, socket.socketpair()[1])

    def take(self, *lines: dict[str, Any]) -> None:
        for line in lines:
            self.bridge._to_store(line)

    def tell(self, rows: list[dict[str, Any]], *, new: bool = False) -> None:
        self.take({"links": {"rows": rows, "new": new, "more": False}}, {"status": {"epoch": 7}})


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["source"]: row for row in rows}


def test_a_link_that_changes_is_all_that_is_written(server: PrivateRedis, store: Store, client: Any) -> None:  # noqa: ANN401
    leader = Bridge(server.url)
    leader.tell(ROWS, new=True)
    assert by_name(store.capacities()) == by_name(ROWS) and store.status() == {"epoch": 7}
    before = client.info("stats")["total_net_input_bytes"]
    changed = {**ROWS[5], "unmanaged_bps": 10**8}
    leader.tell([changed])
    leader.take({"status": {"epoch": 7}})
    assert client.info("stats")["total_net_input_bytes"] - before < 4_000
    assert by_name(store.capacities()) == by_name(ROWS) | {"s5": changed}


def test_links_of_which_some_are_still_to_come_are_not_published(server: PrivateRedis, store: Store) -> None:
    leader = Bridge(server.url)
    leader.take({"links": {"rows": ROWS[:9], "new": True, "more": True}}, {"status": {}})
    assert store.capacities() == []
    leader.take({"links": {"rows": ROWS[9:], "new": False, "more": False}}, {"status": {}})
    assert by_name(store.capacities()) == by_name(ROWS)


def test_the_status_has_them_too_while_a_controller_is_there_that_knows_no_parts(
    server: PrivateRedis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parted, "LOOK_S", 0.0)
    leader = Bridge(server.url)
    store.publish_controller("old", {"schemas": [1, 1]})
    leader.tell(ROWS, new=True)
    assert by_name((store.status() or {})["links"]) == by_name(ROWS)
    store.publish_controller("old", {"schemas": [1, 2]})
    leader.take({"status": {"epoch": 8}})
    assert store.status() == {"epoch": 8} and by_name(store.capacities()) == by_name(ROWS)


def test_what_changed_while_the_store_was_away_is_published_when_it_is_back(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server:
        leader = Bridge(server.url)
        leader.tell(ROWS, new=True)
    leader.tell([{**ROWS[5], "unmanaged_bps": 10**8}])
    with PrivateRedis(tmp_path) as server:
        leader.take({"status": {}})
        assert by_name(Store(server.url).capacities())["s5"]["unmanaged_bps"] == 10**8


def test_who_leads_again_publishes_its_own_anew(server: PrivateRedis, store: Store) -> None:
    first, second = Bridge(server.url), Bridge(server.url)
    first.tell(ROWS, new=True)
    first.take({"leads": 0})
    second.tell(ROWS[:3], new=True)
    assert len(store.capacities()) == 3
    first.take({"leads": 9}, {"status": {}})
    assert by_name(store.capacities()) == by_name(ROWS)
