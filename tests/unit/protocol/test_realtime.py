"""When garbage is looked for, and when memory is locked. In a process of its own, since both are of a whole process."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


MAPPED_MB = 64
LOCKED = f"""
import mmap, re
from pathlib import Path
from protocol.realtime import become_realtime

def resident_mb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

if refused := become_realtime(1):
    print("refused:", refused)
else:
    before_mb = resident_mb()
    memory = mmap.mmap(-1, {MAPPED_MB} << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    print(resident_mb() - before_mb)
"""


def test_new_memory_of_a_real_time_process_comes_page_by_page() -> None:
    said = subprocess.run([sys.executable, "-c", LOCKED], capture_output=True, text=True, check=True).stdout
    if said.startswith("refused"):
        pytest.skip(said.strip())
    assert float(said) < MAPPED_MB / 4
