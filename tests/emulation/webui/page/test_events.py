"""The list of events."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from controller.store.store import EVENTS_KEPT
from tests import needs
from tests.emulation.webui.dashboard import Dashboard

pytestmark = [needs.CHROMIUM, needs.REDIS]


def test_new_events_take_the_place_of_the_oldest_ones(small: Dashboard) -> None:
    store = small.feeder.feed.store
    for number in range(EVENTS_KEPT):
        store.publish_event("n", "info", f"number {number}.")
    with small.page("events") as page:
        expect(page.locator("#events li").first).to_contain_text(f"number {EVENTS_KEPT - 1}.")
        expect(page.locator("#events li")).to_have_count(200)
        expect(page.locator("#events-hint")).to_have_text(re.compile("^the latest 200 of .+; search for older ones$"))
        for number in range(EVENTS_KEPT, EVENTS_KEPT + 20):
            store.publish_event("n", "info", f"number {number}.")
        expect(page.locator("#events li").first).to_contain_text(f"number {EVENTS_KEPT + 19}.")
        listed = [int(number) for number in re.findall(r"number (\d+)\.", page.locator("#events").inner_text())]
        assert listed == list(range(EVENTS_KEPT + 19, EVENTS_KEPT + 19 - 200, -1))


def test_what_a_list_leaves_out_is_told_where_it_is_and_found_by_a_search(small: Dashboard) -> None:
    store = small.feeder.feed.store
    for number in range(205):
        store.publish_event("audit", "info", f"ada: change {number}.", by="ada")
    with small.page("events") as page:
        page.fill("#events-filter", "change 3.")
        expect(page.locator("#events li")).to_have_count(1)
        expect(page.locator("#events-hint")).to_have_text("")
        expect(page.locator("#audit-hint")).to_contain_text(re.compile(r"^the latest (1\d\d|200); "))
