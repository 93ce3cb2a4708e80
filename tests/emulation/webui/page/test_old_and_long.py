"""What the page shows when its data are old, and figures and names that are long."""

from __future__ import annotations

import itertools
import os
import re
import signal

from playwright.sync_api import expect

from controller.store.store import StoreUnavailable
from tests import needs
from tests.emulation.webui.dashboard import Dashboard
from webui.state.poller import lost

pytestmark = [needs.CHROMIUM, needs.REDIS]


def test_a_page_without_news_does_not_look_well(small: Dashboard) -> None:
    """Its tab, too, says so: an operator may look at another one."""
    process = small.server.process
    assert process is not None
    with small.page() as page:
        expect(page.locator("#facts .dot.good")).to_be_visible()
        os.kill(process.pid, signal.SIGSTOP)
        try:
            expect(page.locator("#facts .state")).to_have_text("no news")
            expect(page.locator("#facts .dot.good")).to_have_count(0)
            expect(page).to_have_title(re.compile("^no news "))
        finally:
            os.kill(process.pid, signal.SIGCONT)
        expect(page).to_have_title("Baton", timeout=15_000)


def test_while_the_store_is_away_the_page_shows_what_was_known_and_that_it_is_old(small: Dashboard) -> None:
    """It said that no host had registered."""
    gone = lost(StoreUnavailable("store unix:///s does not answer: start it"))
    with small.page("members") as page:
        rows = page.locator("#members .rows .row:not([hidden])")
        expect(rows.first).to_be_visible()
        tell = "gone => { const { feed } = window.baton; const take = feed.take.bind(feed); window.take = take;"
        page.evaluate(f"{tell} feed.take = (name) => name === 'state' && take('state', gone) }}", gone)
        expect(page.locator("#banner")).to_contain_text("The store can't be read: store unix:///s does not answer.")
        expect(page.locator("html")).to_have_class(re.compile("stale"))
        expect(page.locator("#facts .state")).to_have_text("no news")
        expect(page.locator("#members")).not_to_contain_text("No host has registered")
        expect(rows.first).to_be_visible()
        page.evaluate("window.baton.feed.take = window.take")
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("html")).not_to_have_class(re.compile("stale"))


def test_a_page_without_a_stream_says_so_and_shows_what_it_asks_for(small: Dashboard) -> None:
    with small.page() as page:
        page.route("**/api/stream*", lambda route: route.fulfill(status=503))
        page.reload()
        expect(page.locator("#banner")).to_contain_text("No live stream")
        expect(page.locator("html")).not_to_have_class(re.compile("stale"))
    small.complaints.clear()  # the console tells of each refused stream


def test_where_reading_needs_a_login_a_page_whose_login_has_ended_says_so(small: Dashboard) -> None:
    """It said that the server did not answer."""
    with small.page() as page:
        refused = {"status": 401, "content_type": "application/json", "body": "{}"}
        page.route("**/api/state*", lambda route: route.fulfill(**refused))
        page.route("**/api/stream*", lambda route: route.fulfill(**refused))
        page.evaluate("window.baton.feed.open()")
        expect(page.locator("#banner")).to_contain_text("Your login has ended: the page shows old data.")
        page.unroute("**/api/stream*")
        expect(page.locator("#banner")).to_be_hidden()
    small.complaints.clear()  # the console tells of each refused request


def test_a_members_late_slots_are_readable_after_a_week(small: Dashboard) -> None:
    with small.page("members") as page:
        table = "window.baton.members.table"
        page.evaluate(f"{table}.set = () => {{}}")  # the feed goes on
        member = f"{{ ...{table}.all[0], slots: 123456789, late_slots: 1234567 }}"
        page.evaluate(f"{table}.all = [{member}]; {table}.refresh()")
        cell = page.locator("#members .rows .row:not([hidden]) .td").nth(6)
        expect(cell).to_have_text("1\u202f234\u202f567 (1.0 %)")
        expect(cell).to_have_attribute("title", "1\u202f234\u202f567 of 123\u202f456\u202f789 slots")
        assert cell.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_a_name_that_a_column_cuts_is_shown_by_pointing_at_it(small: Dashboard) -> None:
    name = "rack-12-server-7.compute.dc1.frankfurt.example.org"
    with small.page("members", width=360) as page:
        table = "window.baton.members.table"
        page.evaluate(f"{table}.set = () => {{}}")  # the feed goes on
        page.evaluate(f"name => {{ {table}.all = [{{ ...{table}.all[0], name, enrolled: name }}]; {table}.refresh() }}", name)
        cell = page.locator("#members .rows .row:not([hidden]) .td").first
        expect(cell).to_have_text(name)
        assert cell.evaluate("one => one.scrollWidth > one.clientWidth")
        expect(cell).to_have_attribute("title", name)
    with small.page("flows") as page:
        for cell in page.locator("#flows .rows .row:not([hidden])").first.locator(".td").all()[:2]:
            expect(cell).to_have_attribute("title", re.compile("^h[0-9]+$"))


def test_a_member_is_heard_as_seldom_as_the_leader_asks_for_reports(small: Dashboard) -> None:
    with small.page("members") as page:
        cell = page.locator("#members .rows .row:not([hidden]) .td").nth(5)
        for report_ms, late in ((50, True), (10_000, False)):
            page.evaluate(
                """report_ms => {
                    const { feed } = window.baton, state = feed.last.state;
                    feed.take = () => {};  // the feed goes on
                    const members = state.members.map((one) => ({ ...one, last_heard_ms: 9000 }));
                    feed.last.state = { ...state, members, coordinator: { ...state.coordinator, report_ms } };
                    feed.dispatchEvent(new CustomEvent("state", { detail: feed.last.state }));
                }""",
                report_ms,
            )
            expect(cell).to_have_text("9 s")
            is_marked = expect(cell).to_have_class if late else expect(cell).not_to_have_class
            is_marked(re.compile(r"\bbad\b"))


def test_without_a_leader_when_members_were_heard_is_old_and_the_alert_keeps_its_text(small: Dashboard) -> None:
    with small.page("members") as page:
        cell = page.locator("#members .rows .row:not([hidden]) .td").nth(5)
        expect(cell).to_have_text(re.compile("ms$"))
        small.feeder.silent.set()
        try:
            expect(cell).to_have_text("old")
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text("No leader: every gate is open")
            since = page.locator("#banner .since")
            expect(since).to_have_text(re.compile("^for [0-9]+ s$"))
            page.evaluate(
                """() => {
                    window.changes = 0;
                    const count = (found) => { window.changes += found.length; };
                    const watched = { childList: true, characterData: true, subtree: true };
                    new MutationObserver(count).observe(document.querySelector("[role=alert]"), watched);
                }"""
            )
            before = since.inner_text()
            expect(since).not_to_have_text(before)
            assert page.evaluate("window.changes") == 0
        finally:
            small.feeder.silent.clear()
        expect(cell).to_have_text(re.compile("ms$"))
        expect(page.locator("#banner")).to_be_hidden()


def test_long_names_are_cut_so_that_they_are_told_apart_and_shown_by_pointing(small: Dashboard) -> None:
    domain = ".compute.dc1.frankfurt.example"
    with small.page("fabric") as page:
        whole = page.evaluate(
            """domain => {
                const { feed, fabric } = window.baton;
                const rename = (id) => (/^h[0-9]+$/.test(id) ? `rack-12-server-${id}${domain}` : id);
                feed.take = () => {};  // the feed goes on
                const { nodes, links, ...rest } = feed.last.fabric;
                fabric.show({
                    ...rest, nodes: nodes.map((one) => ({ ...one, id: rename(one.id) })),
                    links: links.map((one) => ({ ...one, a: rename(one.a), b: rename(one.b) })),
                });
                return nodes.filter((one) => one.kind === "host").map((one) => rename(one.id));
            }""",
            domain,
        )
        boxes = []
        for name in whole:
            host = page.locator(f'#fabric .node[data-id="{name}"]')
            expect(host.locator("title")).to_have_text(name)
            boxes.append((host.locator("text").bounding_box() or {}, host.locator("text").text_content() or ""))
        assert len({text for _, text in boxes}) == len(whole) and all("…" in text for _, text in boxes)
        boxes.sort(key=lambda one: one[0]["x"])
        for (one, _), (other, _) in itertools.pairwise(boxes):
            assert one["x"] + one["width"] <= other["x"]


def test_in_a_narrow_window_a_flow_shows_that_it_is_regulated(small: Dashboard) -> None:
    with small.page("flows", width=360) as page:
        gate = page.locator("#flows .rows .row:not([hidden]) .td.gate", has_text="regulated").first
        expect(gate).to_be_visible()
        assert gate.evaluate("one => one.scrollWidth <= one.clientWidth")
        assert page.locator("#flows .table-scroll").evaluate("one => one.scrollWidth <= one.clientWidth")


def test_in_a_narrow_window_the_pauses_have_more_room_than_the_names(small: Dashboard) -> None:
    with small.page("pfc", width=360) as page:
        page.wait_for_selector("#pfc th[scope=row]")
        state = "window.baton.feed.last.state"
        page.evaluate(
            f"""() => {{
                window.baton.feed.take = () => {{}};  // the feed goes on
                const named = ([name, rows]) => [`rack-12-server-${{name}}.compute.dc1.frankfurt.example`, rows];
                const pfc = Object.fromEntries(Object.entries({state}.pfc).map(named));
                window.baton.feed.dispatchEvent(new CustomEvent("state", {{ detail: {{ ...{state}, pfc }} }}));
            }}"""
        )
        name = page.locator("#pfc th[scope=row]").first
        expect(name).to_have_text(re.compile("^…h[0-9]+$"))
        expect(name).to_have_attribute("title", re.compile("^rack-12-server-h[0-9]+[.]compute"))
        assert (name.bounding_box() or {})["width"] < 120
