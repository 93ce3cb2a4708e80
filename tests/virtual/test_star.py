"""The whole of Baton on the star of the demo, in virtual time: full, fair, without a loss, and the same each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
GIGABIT = 1_000_000_000


def star(rate_bps: int, k: int, duration_s: float, seed: int = 1) -> dict[str, Any]:
    """The record of one run of star_run.py."""
    program = [sys.executable, "-m", "tests.virtual.inside.star_run", str(rate_bps), str(k), str(duration_s)]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--seed", str(seed), "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_same_seed_gives_the_same_figures_to_the_last_digit() -> None:
    first, again = star(100_000_000, 3, 1.0), star(100_000_000, 3, 1.0)
    assert first == again
    assert first["goodput_mbps"] > 93 and first["drops"] == 0 and first["late_slots"] == 0


@pytest.mark.parametrize("k", [0, 5])
def test_a_gigabit_is_full_and_shared_alike(k: int) -> None:
    found = star(GIGABIT, k, 0.5)
    assert found["goodput_mbps"] > 0.93 * 977
    assert found["jain"] > 0.99 and found["drops"] == 0 and found["late_slots"] == 0
    assert found["rtt_ms"]["p99"] < 3
