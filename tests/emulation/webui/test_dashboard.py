"""The dashboard in a real browser: the real server over a real Redis, with a generated feed (bench/dashboard/feed.py)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from controller.store.layout import LEAST_WEIGHT, MOST_WEIGHT
from protocol.bodies.versions import NEWEST
from tests import needs
from tests.emulation.webui.dashboard import VIEWS, Dashboard, dashboard, is_light, wait_for, width_of

SCREENS = Path(__file__).resolve().parents[3] / "docs" / "screens"
SHOWN = {
    "overview": {"#tiles .value": 6, "#fabric .node": 23, "canvas.slots": 1, "#events li": 5},
    "fabric": {"#fabric .node.host": 18, "#fabric .link": 24, "#details .loads li": 5},
    "schedule": {"canvas.slots": 1, "#schedule-legend span": 4},
    "flows": {"#flows .rows .row": 12},
    "sizes": {"#sizes .bin": 10, "#sizes .cuts li": 12},
    "pfc": {"#pfc tbody tr": 12, "#pfc .storm": 1},
    "members": {"#members .rows .row": 18, "#members .clock circle": 18},
    "events": {"#events li": 5},
    "controls": {"#controls .card": 4, "#audit li": 1},
}
"""What each view shows of the small fabric, and the least number of it that is visible."""
COLOURS = """(() => {
    const canvas = document.querySelector("canvas.slots"), copy = document.createElement("canvas");
    const { width, height } = Object.assign(copy, { width: canvas.width, height: canvas.height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    return new Set(new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)).size;
})()"""

pytestmark = [needs.CHROMIUM, needs.REDIS]


@pytest.fixture
def small(shared: Dashboard) -> Iterator[Dashboard]:
    """A coordinated fabric of 18 hosts with traffic; the test fails if a page logged an error."""
    shared.complaints.clear()
    yield shared
    shared.feeder.silent.clear()
    shared.feeder.feed.traffic = True
    shared.feeder.feed.store.set_override("coordinate")
    assert shared.complaints == []


def slots(page: Page) -> int:
    """How many slots the timeline holds."""
    found: int = page.evaluate("window.baton.timeline.slots.known.size")
    return found


def pixels(page: Page) -> str:
    """The timeline's picture."""
    found: str = page.evaluate("document.querySelector('canvas.slots').toDataURL()")
    return found


class TestThePictures:
    """They follow the fabric without a reload."""

    def test_a_link_is_coloured_and_marked_when_traffic_makes_it_contended(self, small: Dashboard) -> None:
        small.feeder.feed.traffic = False
        with small.page("fabric") as page:
            expect(page.locator("#fabric .contended")).to_have_count(0)
            colours = page.eval_on_selector_all("#fabric .lane", "all => all.map(one => one.style.stroke)")
            small.feeder.feed.traffic = True
            expect(page.locator("#fabric .contended")).to_have_count(len(small.feeder.feed.sinks))
            assert page.eval_on_selector_all("#fabric .lane", "all => all.map(one => one.style.stroke)") != colours
            expect(page.locator("#details .hot").first).to_be_visible()

    def test_the_timeline_fills_when_traffic_starts_and_says_why_it_is_empty_before(self, small: Dashboard) -> None:
        small.feeder.feed.traffic = False
        time.sleep(0.3)
        small.feeder.feed.store.connection.call(lambda client: client.delete("baton:slots"))
        with small.page("schedule") as page:
            expect(page.locator(".quiet")).to_contain_text("No host needs permission")
            assert slots(page) == 0
            before = pixels(page)
            small.feeder.feed.traffic = True
            wait_for(lambda: slots(page) > 50, "slots in the timeline")
            expect(page.locator(".quiet")).to_be_hidden()
            assert pixels(page) != before

    def test_blocked_links_are_dashed_and_tree_links_are_not(self, small: Dashboard) -> None:
        with small.page("fabric") as page:
            dashes = "all => all.map(one => getComputedStyle(one).strokeDasharray)"
            assert "none" not in page.eval_on_selector_all("#fabric .link.blocked .off", dashes)
            assert set(page.eval_on_selector_all("#fabric .link:not(.blocked) .lane", dashes)) == {"none"}
            expect(page.locator("#fabric .link.blocked")).to_have_count(len(small.feeder.feed.tree.blocked))

    def test_a_click_on_a_host_shows_its_queues_vms_gate_and_what_is_odd(self, small: Dashboard) -> None:
        with small.page("fabric") as page:
            page.click('#fabric [data-id="h5"]')
            details = page.locator("#details")
            for words in ("10.0.0.5", "gate", "tbf", f"wire {NEWEST}", "4 held, 1 refused", "Queues", "without permission"):
                expect(details).to_contain_text(words)
            page.keyboard.press("Escape")
            expect(details).to_contain_text("Busiest links")

    def test_a_link_shows_the_flows_that_cross_it_and_no_other(self, small: Dashboard) -> None:
        feed = small.feeder.feed
        switches = set(feed.fabric.switches)
        link = next(one for one in sorted(feed.tree.forwarding) if {one.a, one.b} <= switches)
        across = {pair for pair in feed.pairs if set(link.directions) & set(feed.routes.path(*pair))}
        assert 0 < len(across) < len(feed.pairs)
        with small.page("fabric") as page:
            page.evaluate("id => location.hash = '#fabric=' + id", f"{link.a}-{link.b}")
            details = page.locator("#details")
            expect(details).to_contain_text(f"Flows across this link ({len(across)})")
            named = details.locator("tbody td:first-child").all_text_contents()
            assert named and {tuple(text.split(" → ")) for text in named} <= across


class TestTheSchedule:
    """Live, paused, zoomed, panned; each kind of slot has its own shape."""

    def test_it_can_be_paused_panned_and_zoomed_by_keys(self, small: Dashboard) -> None:
        with small.page("schedule") as page:
            wait_for(lambda: slots(page) > 100, "slots")
            page.keyboard.press(" ")
            end_us = page.evaluate("window.baton.timeline.endUs")
            page.wait_for_timeout(300)
            assert page.evaluate("window.baton.timeline.endUs") == end_us
            page.keyboard.press("ArrowLeft")
            assert page.evaluate("window.baton.timeline.endUs") < end_us
            length_us = page.evaluate("window.baton.timeline.lengthUs")
            page.keyboard.press("+")
            assert page.evaluate("window.baton.timeline.lengthUs") == length_us / 2
            page.keyboard.press(" ")
            wait_for(lambda: page.evaluate("window.baton.timeline.endUs") > end_us, "to be live again")

    def test_slots_of_each_kind_are_painted_in_different_shapes(self, small: Dashboard) -> None:
        shapes = """kinds => kinds.map(kind => {
            const canvas = document.createElement("canvas"), c = canvas.getContext("2d");
            window.baton.timeline.painter.slot(c, {kind, destination: 1, node: 2}, 20, 40, 20, 16, false);
            const alphas = Array.from(c.getImageData(0, 0, 90, 60).data).filter((_, i) => i % 4 === 3);
            return alphas.map(alpha => +(alpha > 99)).join("");
        })"""
        with small.page("schedule") as page:
            drawn = page.evaluate(shapes, ["slot", "yield", "late", "lost"])
            assert len(set(drawn)) == 4  # in black and white

    def test_pointing_at_a_slot_tells_what_it_is(self, small: Dashboard) -> None:
        where = """() => {
            const t = window.baton.timeline, v = t.view, box = t.canvas.getBoundingClientRect();
            for (const [i, row] of v.rows.entries()) for (const one of t.slots.rows.get(row.node)) {
                if (one.start_us < v.fromUs || one.end_us > v.toUs || i * v.rowHeight > 150) continue;
                const part = ((one.start_us + one.end_us) / 2 - v.fromUs) / (v.toUs - v.fromUs);
                const x = v.gutter + part * (v.width - v.gutter - v.shares);
                return [box.left + x, box.top + 24 + (i + 0.5) * v.rowHeight, row.name, one.slot];
            }
        }"""
        with small.page("schedule") as page:
            wait_for(lambda: slots(page) > 100, "slots")
            page.keyboard.press(" ")
            page.wait_for_timeout(100)
            x, y, name, slot = page.evaluate(where)
            page.mouse.move(x, y)
            expect(page.locator(".tip-box")).to_contain_text(f"{name} → ")
            expect(page.locator(".tip-box")).to_contain_text(f"slot {slot},")


class TestFailing:
    """What an operator sees when a part fails, and that the page recovers by itself."""

    def test_a_lost_coordinator_is_shown_within_two_seconds_and_its_return_too(self, small: Dashboard) -> None:
        with small.page() as page:
            banner = page.locator("#banner")
            took_s = []
            for _ in range(3):  # the machine may be busy at times
                expect(banner).to_be_hidden()
                small.feeder.silent.set()
                time.sleep(0.15)
                page.wait_for_selector("#banner:not([hidden])", timeout=8_000)
                took_s.append(time.monotonic() - small.feeder.last_s)
                expect(banner).to_contain_text("No leader")
                expect(banner).to_contain_text("every gate is open")
                small.feeder.silent.clear()
                if took_s[-1] < 2.0:
                    break
            print(f"lost coordinator shown after {[round(s, 2) for s in took_s]} s")
            assert min(took_s) < 2.0
            expect(banner).to_be_hidden()

    def test_a_lost_server_is_told_and_the_page_goes_on_without_a_reload(self, small: Dashboard) -> None:
        with small.page() as page:
            page.evaluate("window.here = true")
            small.server.stop()
            expect(page.locator("#banner")).to_contain_text("No news")
            expect(page.locator("#banner")).to_contain_text("Coordination does not depend on it")
            small.server.start()
            expect(page.locator("#banner")).to_be_hidden(timeout=15_000)
            wait_for(lambda: page.evaluate("window.baton.feed.silentMs()") < 700, "news")
            assert page.evaluate("window.here")
        assert all("ERR_" in one for one in small.complaints)  # messages of the browser about refused connections
        small.complaints.clear()


class TestControls:
    """They need a login; each change is made, shown and recorded."""

    def test_a_visitor_may_look_and_change_nothing(self, small: Dashboard) -> None:
        with small.page("controls") as page:
            expect(page.locator("#override")).to_be_disabled()
            expect(page.locator(".login-first")).to_contain_text("Log in")

    def test_a_page_whose_login_has_ended_says_so_and_logs_out(self, small: Dashboard) -> None:
        with small.page("controls", user=True) as page:
            csrf = page.locator("meta[name=csrf-token]").get_attribute("content") or ""
            page.request.post(f"{small.server.url}/logout", form={"csrf_token": csrf})  # as another tab does
            page.click("#card-policy button")
            expect(page.locator("#card-policy .done")).to_have_text(re.compile("Your login has ended, and nothing was changed"))
            page.click("#account button")
            expect(page.locator("#account a")).to_have_text("Log in")
        assert all("401" in one for one in small.complaints)
        small.complaints.clear()

    def test_the_override_opens_every_gate_after_it_was_confirmed_and_coordinates_again(self, small: Dashboard) -> None:
        store = small.feeder.feed.store
        with small.page("controls", user=True) as page:
            page.click("#override")
            page.click("#confirm button[value=no]")
            assert store.override() != "free"
            page.click("#override")
            page.click("#confirm-yes")
            expect(page.locator("#card-override .done")).to_contain_text("in force")
            assert store.override() == "free"
            expect(page.locator("#banner")).to_contain_text("Override: free")
            waits = "window.baton.feed.last.state.flows.some(flow => flow.regulated)"
            wait_for(lambda: not page.evaluate(waits), "every flow free")
            expect(page.locator("#card-override .effect")).to_contain_text("regulated")
            expect(page.locator("#audit")).to_contain_text("ada")
            expect(page.locator("#audit")).to_contain_text("every gate open")
            page.click("#override")
            expect(page.locator("#banner")).to_be_hidden()
            assert store.override() == "coordinate"

    def test_policy_slice_and_weight_are_taken_over_and_shown(self, small: Dashboard) -> None:
        store = small.feeder.feed.store
        with small.page("controls", user=True) as page:
            page.fill("#slice", "8")
            page.click("#card-slice button")
            expect(page.locator("#card-slice .now")).to_have_text("8 ms")
            page.fill("#weight-source", "h1")
            bounds = page.locator("#weight").evaluate("one => [Number(one.min), Number(one.max)]")
            assert bounds == [LEAST_WEIGHT, MOST_WEIGHT]
            page.click("#card-weight .set button")
            expect(page.locator("#card-weight .tag")).to_contain_text("h1 → all")
            page.click("#card-weight .tag button")
            expect(page.locator("#card-weight .now")).to_have_text("all equal")
            page.select_option("#policy", "hybrid")
            page.click("#card-policy button")
            expect(page.locator("#card-policy .now")).to_contain_text("hybrid")
            page.fill("#slice", "0")
            page.click("#card-slice button")
            expect(page.locator("#card-slice .done")).to_contain_text("slice_ns")
            assert (store.policy() or {})["policy"] == "hybrid"
            store.set_policy({**(store.policy() or {}), "policy": "timeslice", "slice_ns": 5_000_000})
        assert [one for one in small.complaints if "422" not in one] == []  # messages of the browser about the refused slice
        small.complaints.clear()

    def test_slots_that_last_longer_than_a_slice_are_told(self, small: Dashboard) -> None:
        """In the header and beside the slice; otherwise an operator sees a slice that is not kept."""
        with small.page("controls") as page:
            now, header = page.locator("#card-slice .now"), page.locator("header.top")
            slots_ms = 4 * (small.feeder.feed.store.policy() or {})["slice_ns"] / 1e6
            expect(now).not_to_contain_text("slots last")
            expect(header).not_to_contain_text("slots last")
            small.feeder.feed.slot_slices = 4
            try:
                expect(now).to_contain_text(f"; slots last {slots_ms:g} ms, since there are too many")
                expect(header).to_contain_text("slots last")
            finally:
                small.feeder.feed.slot_slices = 1
            expect(now).not_to_contain_text("slots last")


    def test_what_auto_chose_for_links_is_told_with_the_reason(self, small: Dashboard) -> None:
        feed = small.feeder.feed
        with small.page("controls") as page:
            chosen = page.locator("#card-policy .choices")
            expect(chosen).to_be_hidden()
            feed.choices = [
                {"mode": "rates", "why": "hosts answer late", "count": 240, "links": [[f"s{n}", f"h{n}"] for n in range(8)]},
                {"mode": "turns", "why": "hosts answer soon", "count": 2, "links": [["s1", "h1"], ["s1", "h2"]]},
            ]
            try:
                expect(chosen.locator("li").nth(0)).to_have_text("s0 → h0, s1 → h1, 238 more: rates; hosts answer late")
                expect(chosen.locator("li").nth(1)).to_have_text("s1 → h1, s1 → h2: turns; hosts answer soon")
            finally:
                feed.choices = []
            expect(chosen).to_be_hidden()


class TestKeysAndWidths:
    """Keyboard, narrow screens, dark and light themes."""

    @pytest.mark.parametrize("key", ["?", "/"])
    def test_help_is_a_key_away_and_names_every_view(self, small: Dashboard, key: str) -> None:
        with small.page() as page:
            page.keyboard.press(key)
            keys = page.locator("#keys")
            expect(keys).to_be_visible()
            expect(keys).to_contain_text("pause, or continue")
            assert keys.locator("section").first.locator("kbd").all_inner_texts() == [str(n) for n in range(1, len(VIEWS) + 1)]
            page.keyboard.press("Escape")
            expect(keys).to_be_hidden()
            for number, view in enumerate(VIEWS, 1):
                page.keyboard.press(str(number))
                expect(page.locator("body")).to_have_attribute("data-view", view)

    @pytest.mark.parametrize("width", [400, 1280])
    def test_no_view_scrolls_sideways(self, small: Dashboard, width: int) -> None:
        with small.page(width=width, user=True) as page:
            for number, view in enumerate(VIEWS, 1):
                page.keyboard.press(str(number))
                expect(page.locator("body")).to_have_attribute("data-view", view)
                page.wait_for_timeout(80)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, view

    def test_dark_and_light_follow_the_system_until_somebody_chooses(self, small: Dashboard) -> None:
        background = "getComputedStyle(document.body).backgroundColor"
        with small.page(scheme="light") as page:
            light = page.evaluate(background)
            page.emulate_media(color_scheme="dark")
            dark = page.evaluate(background)
            assert dark != light
            page.keyboard.press("t")
            assert page.evaluate(background) == light
            page.reload()
            assert page.evaluate(background) == light


class TestALargeFabric:
    """200 hosts and 1,000 V2V flows."""

    def test_flows_are_filtered_and_sorted_and_only_those_on_the_screen_exist(
        self, chromium: Browser, tmp_path: Path
    ) -> None:
        with dashboard(tmp_path, chromium, hosts=200, flows=1_000) as large:
            with large.page("flows") as page:
                expect(page.locator("#flows-hint")).to_contain_text("1\u202f000 flows")
                assert page.locator("#flows .rows .row").count() < 100
                rates = page.locator("#flows .rows .row:not([hidden]) .td:nth-child(3)").first
                first = rates.inner_text()
                page.click("#flows .th:nth-child(3)")
                assert rates.inner_text() != first
                source, sink = large.feeder.feed.pairs[0]
                page.fill("#flows-filter", f"{source} > {sink} regulated")
                expect(page.locator("#flows-hint")).to_contain_text("1 of 1\u202f000")
                expect(page.locator("#flows .rows .row:not([hidden])")).to_have_count(1)
                page.fill("#flows-filter", "h9999")
                expect(page.locator("#flows .empty")).to_contain_text("Clear it")
                page.keyboard.press("Escape")
                page.keyboard.press("2")
                expect(page.locator("#fabric .node.cell")).to_have_count(200)
                page.wait_for_timeout(700)
                page.screenshot(path=SCREENS / "fabric-200-hosts-dark.png")
            assert large.complaints == []


class TestScreens:
    """The main views as pictures, for README and the documentation."""

    @pytest.mark.parametrize(("scheme", "width", "height"), [("dark", 1280, 800), ("light", 1280, 800), ("dark", 400, 860)])
    def test_each_view_shows_what_it_is_for_and_is_written_as_a_picture(
        self, small: Dashboard, scheme: str, width: int, height: int
    ) -> None:
        SCREENS.mkdir(parents=True, exist_ok=True)
        wide = width > 1_000
        views = VIEWS if wide and scheme == "dark" else ("overview", "schedule") if wide else ("overview", "flows")
        with small.page(width=width, height=height, scheme=scheme, user=True) as page:
            wait_for(lambda: slots(page) > 300, "slots")
            page.wait_for_timeout(1_500)
            for view in views:
                page.keyboard.press(str(VIEWS.index(view) + 1))
                page.wait_for_timeout(350)
                path = SCREENS / f"{view}-{scheme if wide else width}.png"
                page.screenshot(path=path, full_page=True)
                counts = {what: page.locator(f"{what}:visible").count() for what in SHOWN[view]}
                assert all(counts[what] >= least for what, least in SHOWN[view].items()), (view, counts)
                if "canvas.slots" in SHOWN[view]:
                    assert page.evaluate(COLOURS) > 4, f"{view}: no slots are painted"
                assert is_light(page) == (scheme == "light")
                assert width_of(path) == width
