"""Ways through the dashboard: the address, the keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests import needs
from tests.emulation.webui.dashboard import Dashboard, wait_for

pytestmark = [needs.CHROMIUM, needs.REDIS]


def test_the_link_that_skips_the_navigation_stays_in_the_view(small: Dashboard) -> None:
    with small.page("flows") as page:
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        wait_for(lambda: page.evaluate("location.hash") == "#main", "the link followed")
        expect(page.locator("body")).to_have_attribute("data-view", "flows")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


@pytest.mark.parametrize("hash_", ["overview=%", "fabric=%E0%A4%A", "nosuch=1"])
def test_a_damaged_address_shows_the_page_all_the_same(small: Dashboard, hash_: str) -> None:
    with small.page(hash_) as page:
        expect(page.locator("#facts")).to_contain_text("coordinating")


@pytest.mark.parametrize("view", ["flows", "members"])
def test_a_row_is_opened_by_the_keyboard_as_by_the_mouse(small: Dashboard, view: str) -> None:
    with small.page(view) as page:
        page.locator(f"#{view} .rows .row").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("body")).to_have_attribute("data-view", "fabric")
        expect(page.locator("#details .of")).to_have_text(re.compile("h[0-9]+"))


def test_what_changes_twice_a_second_is_not_read_aloud(small: Dashboard) -> None:
    with small.page() as page:
        expect(page.locator("#facts")).to_contain_text("slots")
        assert page.locator("[aria-live=polite] #facts, #facts[aria-live=polite]").count() == 0


def test_without_members_the_page_names_the_hosts_own_file_and_not_the_master_key(small: Dashboard) -> None:
    with small.page("members") as page:
        says = page.evaluate("window.baton.members.table.nothing().join()")
        assert "--key /etc/baton/host" in says and "/etc/baton/key" not in says


@pytest.mark.parametrize("by", ["keyboard", "mouse"])
def test_details_are_closed_though_they_change_while_the_button_is_reached(small: Dashboard, by: str) -> None:
    """Loads change twice a second: the focus was lost each time, and so was a slow click."""
    with small.page("fabric=h1") as page:
        details = page.locator("#details")
        expect(details.locator(".of")).to_have_text("h1")
        close = details.locator("button")
        close.focus()
        if by == "mouse":
            close.hover()
            page.mouse.down()
        page.evaluate(
            "() => new Promise((done) => { let told = 0;"
            " window.baton.feed.addEventListener('state', () => (told += 1) === 4 && done()); })"
        )
        if by == "mouse":
            page.mouse.up()
        else:
            page.keyboard.press("Enter")
        expect(details.locator(".of")).to_have_text("Busiest links")
