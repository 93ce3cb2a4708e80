"""A lightly loaded fabric over minutes of virtual time: nothing grows, nothing restarts, no slot is late."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120
SAMPLES_KB = 3 * 1024
"""An agent keeps its newest 20,000 samples of each latency, and has fewer yet."""


def test_memory_descriptors_store_and_epoch_stay_as_they_are() -> None:
    program = [sys.executable, "-m", "tests.virtual.soak_run", str(SECONDS)]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stderr
    samples = json.loads(done.stdout.splitlines()[-1])
    middle, last = samples[len(samples) // 2 - 1], samples[-1]
    assert last["slots"] > middle["slots"] > 0
    assert (last["epoch"], last["members"]) == (middle["epoch"], middle["members"]) and last["members"] == 6
    assert last["late_slots"] == last["lost"] == 0
    assert last["processes"].keys() == middle["processes"].keys()  # the same ids: nothing was started again
    for name, (resident, descriptors) in last["processes"].items():
        resident_before, descriptors_before = middle["processes"][name]
        assert resident <= resident_before * 1.02 + SAMPLES_KB, name
        assert descriptors == descriptors_before, name
    assert last["keys"] <= middle["keys"] + 2
    assert last["store_bytes"] <= middle["store_bytes"] * 1.1
