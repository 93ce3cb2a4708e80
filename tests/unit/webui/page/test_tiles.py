"""The figures of the overview's tiles."""

from __future__ import annotations

import pytest

from tests.unit.webui.page.node import found_by, script


@pytest.mark.parametrize("every_s", [0.5, 1, 2])
def test_late_slots_are_those_of_the_last_half_minute_however_often_states_come(every_s: float) -> None:
    """Of a large fabric, whose state comes once a second, the tile had a minute's slots, and said that they were of 30 s."""
    _, late, note, *_ = found_by(f"""const count = String, percent = String; {script("views/tiles.js")}
        const told = [], tiles = Object.assign(Object.create(Tiles.prototype), {{ set: (...said) => told.push(said) }});
        for (let at = 0; at <= 120; at += {every_s}) {{
          performance.now = () => 1000 * at;
          tiles.late({{ slots: 100 * at, late_slots: at < 60 ? 0 : 10 * (at - 60), epoch: 1, alive: true }});
        }}
        answer(told.at(-1));""")
    assert note == "of 3000 in 30 s" and float(late) == 0.1
