"""How long coflows take in their order, in virtual time. In real time a processor that is taken away for some milliseconds
hides what an order gains in bursts of 0.2 s."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def times_of(experiment: str) -> dict[str, list[float]]:
    """What coflow_run.py printed: ms by place in a burst."""
    program = [sys.executable, "-m", "tests.virtual.inside.coflow_run", experiment]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=580)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    print({name: [round(time) for time in times] for name, times in found.items()})
    return found


def test_first_in_first_out_the_first_is_through_first_and_the_mean_is_less_than_when_all_share() -> None:
    by_place = times_of("fifo")
    assert sum(by_place["fifo"]) < 0.7 * sum(by_place["none"])
    assert by_place["fifo"][0] < 0.4 * by_place["fifo"][-1]


def test_light_coflows_pass_a_heavy_one_through_the_controller_whether_or_not_sizes_are_known() -> None:
    by_place = times_of("controller")
    for name in ("known", "unknown"):
        assert sum(by_place[name][1:]) < 0.75 * sum(by_place["none"][1:]), name
        assert sum(by_place[name]) < sum(by_place["none"]), name
