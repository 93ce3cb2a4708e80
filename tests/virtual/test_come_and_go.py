"""Members that come and go: agents stopped, killed and started, an address that moves, leaders that die. Nothing grows.

BATON_ROUNDS and BATON_STEP_S in the environment: so many rounds of eight steps, each so many seconds long. 18 and 600: a day.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS, STEP_S = int(os.environ.get("BATON_ROUNDS", "5")), float(os.environ.get("BATON_STEP_S", "60"))
GROWN, SAMPLES_KB = 1.02, 3 * 1024
EVENTS_A_ROUND = 24
LOG_BYTES_A_ROUND = 8_000
SPARE_CONNECTIONS = 2
"""A client of Redis opens a connection more when two of its threads happen to ask at once, and keeps it; Redis has one more
then, too. Agents have none. One lost in each round would be more than this."""


@pytest.mark.timeout(max(600, ROUNDS * 240))
def test_memory_descriptors_store_and_files_stay_as_they_are() -> None:
    program = [sys.executable, "-m", "tests.virtual.inside.come_and_go_run", str(ROUNDS), str(STEP_S)]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    samples = found["samples"]
    early, last = samples[1], samples[-1]
    assert len(samples) == found["moves"] == ROUNDS and found["leaders_killed"] == -(-ROUNDS // 4)
    assert all(sample["members"] == 4 and sample["late_slots"] == 0 for sample in samples)
    assert last["epoch"] > early["epoch"] and last["slots"] > 0
    assert last["processes"].keys() == early["processes"].keys()
    for role, (pid, resident, descriptors) in last["processes"].items():
        pid_before, resident_before, descriptors_before = early["processes"][role]
        assert resident <= resident_before * GROWN + SAMPLES_KB, role
        spare = 0 if role.startswith("agent") else SPARE_CONNECTIONS
        assert abs(descriptors - descriptors_before) <= spare, role
        assert pid == pid_before or role.startswith(("agent", "controller.coordinator", "controller.election")), role
    store, before = last["store"], early["store"]
    assert store["keys"] <= before["keys"] + 2 and store["bytes"] <= before["bytes"] * 1.1
    rounds = len(samples) - 2
    assert store["streams"]["baton:events"] <= min(1_100, before["streams"]["baton:events"] + rounds * EVENTS_A_ROUND)
    assert last["log_bytes"] <= early["log_bytes"] + rounds * LOG_BYTES_A_ROUND
    assert int(last["flows"]) <= int(early["flows"]) + 2 and last["files"] == early["files"]
