"""When garbage is looked for. In a process of its own, as the collector is the whole process'."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from protocol.realtime import COLLECT, become_realtime, hold_garbage
hold_garbage()
before = gc.isenabled()
kept = [[] for _ in range(1000)]
assert become_realtime(None) is None
print(before, gc.isenabled(), gc.get_threshold() == COLLECT, gc.get_freeze_count() > 1000)
"""


def test_while_a_process_starts_no_garbage_is_looked_for_and_what_it_made_is_set_aside() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True", "True", "True"]
