"""The dashboard's own formats, order of names and sums, compared with the browser's Intl and with what the server makes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from bench.dashboard.page import browser
from tests import needs
from webui.state import lists, model

LIB = Path(__file__).resolve().parents[3] / "webui" / "static" / "lib"
EXPORTS = "count, clock, when, natural"

pytestmark = needs.CHROMIUM


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as chromium, chromium.new_page() as made:
        text = (LIB / "format.js").read_text().replace("export ", "")
        made.evaluate(f"window.format = (() => {{ {text}; return {{ {EXPORTS} }}; }})()")
        yield made


def each(page: Page, function: str, values: list[Any]) -> list[Any]:
    """The results of a function of the page for each value."""
    found: list[Any] = page.evaluate(f"values => values.map({function})", values)
    return found


def test_counts_are_grouped_as_the_browser_would(page: Page) -> None:
    dice = random.Random(1)
    values = [0, 7, 999, 1000, 12345, -1000, 1e6, 0.4, 999.5, *(dice.randrange(10**dice.randrange(1, 13)) for _ in range(200))]
    own = each(page, "format.count", values)
    assert own == each(page, "value => Math.round(value).toLocaleString('en').replaceAll(',', '\\u202f')", values)
    assert own[4] == "12\u202f345"


def test_times_are_of_the_browsers_zone_to_the_second(page: Page) -> None:
    dice = random.Random(2)
    values = [0, *(dice.randrange(2 * 10**12) for _ in range(200))]
    assert each(page, "format.clock", values) == each(page, "time => new Date(time).toLocaleTimeString('en-GB')", values)


def test_a_time_of_another_day_has_its_day(page: Page) -> None:
    assert page.evaluate("format.when(Date.now())") == page.evaluate("format.clock(Date.now())")
    assert page.evaluate("format.when(new Date(2024, 1, 9, 3, 4, 5).getTime())") == "02-09 03:04"


def test_names_are_in_the_order_that_people_expect(page: Page) -> None:
    dice = random.Random(3)
    kinds, tails = ("h", "leaf", "s", "H"), ("", " h2", "-eth10")
    names = [f"{dice.choice(kinds)}{dice.randrange(2000)}{dice.choice(tails)}" for _ in range(60)]
    dice.shuffle(names)
    own = page.evaluate("names => [...names].sort(format.natural)", names)
    theirs = page.evaluate("names => [...names].sort(new Intl.Collator('en', { numeric: true }).compare)", names)
    assert [name.lower() for name in own] == [name.lower() for name in theirs]
    assert page.evaluate("['h10', 'h2', 'h1'].sort(format.natural)") == ["h1", "h2", "h10"]


def test_more_names_than_are_kept_are_still_in_order(page: Page) -> None:
    assert page.evaluate("Array.from({ length: 25000 }, (_, i) => `h${24999 - i}`).sort(format.natural)[10]") == "h10"


def test_a_member_has_problems_for_the_page_where_it_has_for_the_server(page: Page) -> None:
    """The page makes the sums of a small fabric, the server those of a large one."""
    told = [{}, {"suspect": ["a"]}, {"warnings": ["no addresses"]}, {"drift": ["b"]}, {"warnings": ["c"], "drift": ["d"]}]
    state = {"links": {}, "flows": [], "members": [model.member(at, f"h{at}", one) for at, one in enumerate(told)]}
    text = (LIB / "totals.js").read_text().replace("export ", "")
    found = page.evaluate(f"state => {{ {text}; return totalsOf(state).odd; }}", state)
    assert found == sum(bool(lists.odd(one)) for one in told) == 4
