"""An agent in virtual time hears of a packet when it comes, and not at the kernel's next tick, up to 10 ms later."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_event_of_a_packet_wakes_its_reader_at_once() -> None:
    program = [sys.executable, "-m", "tests.virtual.inside.event_run"]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    waits_ns = json.loads(done.stdout.splitlines()[-1])
    assert len(waits_ns) == 5 and max(waits_ns) < 100_000, waits_ns
