"""`baton status` and `baton pfc` over the feed of the dashboard's benchmark."""

from __future__ import annotations

from bench.dashboard.feed import Feed
from controller.members.registry import Members
from controller.store.store import Store
from tests import needs
from tests.emulation.cli.conftest import Run

pytestmark = needs.REDIS


def test_its_members_have_what_real_ones_have(store: Store) -> None:
    feed = Feed(store)
    feed.begin()
    feed.step()
    real = Members().register(b"\x02" + bytes(5), "h1", 10**9, (), "tbf", "1", 0).record(0)
    parts = {"regulated", "waiting_us", "suspect", "pfc", "pfc_state", "warnings"}
    members = store.members()
    assert all(members[node].keys() >= real.keys() | parts for node in feed.node.values())


def test_status_and_pfc_show_a_generated_feed_and_refuse_a_storm_on_it(run: Run, store: Store) -> None:
    feed = Feed(store)
    feed.begin()
    feed.step()
    host = feed.hosts[0]
    code, text = run("status")
    assert code == 0 and "12 hosts; " in text
    code, text = run("pfc", "status")
    assert code == 0 and host in text and "software" in text
    code, text = run("pfc", "pause", "--host", host, "--classes", "3", "--for", "300ms")
    assert code == 1 and "would be a storm" in text
