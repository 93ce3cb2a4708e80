"""What the schedule of a large fabric says of slots that are not in the picture, by the page's own script in Node.js."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from webui.http.pages import STATIC

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not installed: apt-get install nodejs")
@pytest.mark.parametrize("after_s", [0.2, 1, 60])
def test_slots_that_are_not_in_the_picture_are_told_by_the_second(after_s: float) -> None:
    """After a pause of a minute it said that sixty times as many were not there."""
    assert NODE is not None
    script = re.sub("^import .*|^export ", "", (STATIC / "timeline/paged.js").read_text(), flags=re.M)
    program = f"""const count = (value) => String(Math.round(value)); {script}
        const nothing = () => {{}}, timeline = {{ names: new Map(), slots: {{ keep: nothing }}, add: nothing, say: nothing }};
        const paged = Object.assign(Object.create(Paged.prototype), {{ timeline, pager: {{ say: nothing }}, dropped: null }});
        for (const at of [5, 5 + {after_s}]) {{
          performance.now = () => 1000 * at;
          paged.show({{ page: 1, names: {{}}, dropped: Math.round(100 * at), rows: [], slots: [], now_us: 0 }});
        }}
        console.log(JSON.stringify(paged.says));"""
    says = json.loads(subprocess.run([NODE, "-e", program], capture_output=True, check=True, timeout=60).stdout)
    assert says.startswith("100 slots a second are not in the picture")
