"""What the schedule of a large fabric says of slots that are not in the picture."""

from __future__ import annotations

import pytest

from tests.unit.webui.page.node import found_by, script


@pytest.mark.parametrize("after_s", [0.2, 1, 60])
def test_slots_that_are_not_in_the_picture_are_told_by_the_second(after_s: float) -> None:
    """After a pause of a minute it said that sixty times as many were not there."""
    says = found_by(f"""const count = (value) => String(Math.round(value)); {script("timeline/paged.js")}
        const nothing = () => {{}}, timeline = {{ names: new Map(), slots: {{ keep: nothing }}, add: nothing, say: nothing }};
        const paged = Object.assign(Object.create(Paged.prototype), {{ timeline, pager: {{ say: nothing }}, dropped: null }});
        for (const at of [5, 5 + {after_s}]) {{
          performance.now = () => 1000 * at;
          paged.show({{ page: 1, names: {{}}, dropped: Math.round(100 * at), rows: [], slots: [], now_us: 0 }});
        }}
        answer(paged.says);""")
    assert says.startswith("100 slots a second are not in the picture")
