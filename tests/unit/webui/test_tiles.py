"""The figures of the overview's tiles, by the page's own script in Node.js."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from webui.http.pages import STATIC

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed: apt-get install nodejs")
@pytest.mark.parametrize("every_s", [0.5, 1, 2])
def test_late_slots_are_those_of_the_last_half_minute_however_often_states_come(every_s: float) -> None:
    """Of a large fabric, whose state comes once a second, the tile had a minute's slots, and said that they were of 30 s."""
    assert NODE is not None
    script = re.sub("^import .*|^export ", "", (STATIC / "views/tiles.js").read_text(), flags=re.M)
    program = f"""const count = String, percent = String; {script}
        const told = [], tiles = Object.assign(Object.create(Tiles.prototype), {{ set: (...said) => told.push(said) }});
        for (let at = 0; at <= 120; at += {every_s}) {{
          performance.now = () => 1000 * at;
          tiles.late({{ slots: 100 * at, late_slots: at < 60 ? 0 : 10 * (at - 60), epoch: 1, alive: true }});
        }}
        console.log(JSON.stringify(told.at(-1)));"""
    _, late, note, *_ = json.loads(subprocess.run([NODE, "-e", program], capture_output=True, check=True, timeout=60).stdout)
    assert note == "of 3000 in 30 s" and float(late) == 0.1
