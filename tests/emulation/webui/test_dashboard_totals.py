"""The sums that the page makes of a small fabric's lists, compared with those that the server makes of a large one's."""

from __future__ import annotations

from pathlib import Path

from bench.dashboard.page import browser
from tests import needs
from webui.state import lists, model

MODULE = Path(__file__).resolve().parents[3] / "webui" / "static" / "lib" / "totals.js"

pytestmark = needs.CHROMIUM


def test_a_member_has_problems_for_the_page_where_it_has_for_the_server() -> None:
    told = [{}, {"suspect": ["a"]}, {"warnings": ["no addresses"]}, {"drift": ["b"]}, {"warnings": ["c"], "drift": ["d"]}]
    state = {"links": {}, "flows": [], "members": [model.member(at, f"h{at}", one) for at, one in enumerate(told)]}
    with browser() as chromium, chromium.new_page() as page:
        text = MODULE.read_text().replace("export ", "")
        found = page.evaluate(f"state => {{ {text}; return totalsOf(state).odd; }}", state)
    assert found == sum(bool(lists.odd(one)) for one in told) == 4
