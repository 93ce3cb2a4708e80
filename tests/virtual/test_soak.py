"""An idle and lightly loaded fabric over three hours of virtual time: nothing grows, nothing restarts, no slot is late.

BATON_SOAK_S in the environment: so many seconds instead of 10,800.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = int(os.environ.get("BATON_SOAK_S", "10800"))
SLOTS = 2_000
SAMPLES_KB = 3 * 1024
"""An agent keeps its newest 20,000 samples of each latency, and has fewer yet."""


@pytest.mark.timeout(max(600, SECONDS // 12))
def test_memory_descriptors_store_and_epoch_stay_as_they_are() -> None:
    program = [sys.executable, "-m", "tests.virtual.inside.soak_run", str(SECONDS)]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    samples = json.loads(done.stdout.splitlines()[-1])
    early, last = samples[len(samples) // 2 - 1], samples[-1]
    slots = [sample["slots"] for sample in samples]
    assert slots == sorted(set(slots)) and slots[-1] > SLOTS  # in every eighth of the time, the last one included
    assert (last["epoch"], last["members"]) == (early["epoch"], early["members"]) and last["members"] == 3
    assert last["late_slots"] == last["lost"] == 0
    assert last["processes"].keys() == early["processes"].keys()  # the same ids: nothing was started again
    for name, (resident, descriptors) in last["processes"].items():
        resident_before, descriptors_before = early["processes"][name]
        assert resident <= resident_before * 1.02 + SAMPLES_KB, name
        assert descriptors == descriptors_before, name
    assert last["keys"] <= early["keys"] + 2
    assert last["store_bytes"] <= early["store_bytes"] * 1.1
