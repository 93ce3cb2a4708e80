"""A page whose stream was away for some seconds, at a real store."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from controller.store.private_redis import PrivateRedis
from controller.store.store import Store
from tests import needs
from webui.state.poller import Poller

pytestmark = needs.REDIS


def test_it_gets_all_events_and_slots_that_it_missed(tmp_path: Path) -> None:
    with PrivateRedis(tmp_path) as server:
        store = Store(server.url)
        for number in range(300):
            store.publish_event("n", "error", f"number {number}")
            store.feeds.publish_slots({"now_us": number, "rows": [["slot", number, 1, 2, number, number + 1, 1]]})
        first = f"{store.events(300)[0]['id']},{store.feeds.slots_after(None, 300)[0][0]}"
        poller = Poller(store)
        subscription = poller.subscribe(first)
        try:
            told, end_s = "", time.monotonic() + 5
            while "number 299" not in told and time.monotonic() < end_s:
                told += subscription.take(0.5).decode()
        finally:
            poller.unsubscribe(subscription)
            store.close()
    assert list(map(int, re.findall(r"number (\d+)", told))) == list(range(1, 300))
    rows = [row for found in re.findall("event: schedule\ndata: (.*)", told) for row in json.loads(found)["rows"]]
    assert {row[1] for row in rows} == set(range(1, 300))
