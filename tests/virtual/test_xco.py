"""XCo's experiments in virtual time: their traffic moves what it says, and one figure is measured, concluded and drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.virtual.inside.requests_run import BLOCK_BYTES, BULK_BYTES, CONNECTION_BYTES

ROOT = Path(__file__).resolve().parents[2]


def test_blocks_short_connections_a_bulk_transfer_and_a_flood() -> None:
    program = [sys.executable, "-m", "tests.virtual.inside.requests_run"]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    first, second, short, bulk, _ = found["received"]
    assert found["buckets"] == found["received"]

    # The barrier: both servers have answered equally often, but for the round that the measurement's ends cut.
    rounds = len(found["rounds_ns"])
    assert rounds >= 5 and first == pytest.approx(second, abs=2 * BLOCK_BYTES)
    assert first == pytest.approx(rounds * BLOCK_BYTES, abs=2 * BLOCK_BYTES)
    # Two blocks on a link of 100 Mb/s take 16 ms and their headers' time at least.
    assert min(found["rounds_ns"]) > 2 * BLOCK_BYTES * 80

    assert found["connections"] >= 5
    assert short == pytest.approx(found["connections"] * CONNECTION_BYTES, abs=6 * CONNECTION_BYTES)
    assert 0 < found["connection_ms"]["p50"] <= found["connection_ms"]["p99"] <= found["connection_ms"]["max"]

    assert bulk == BULK_BYTES and found["bulk_ns"] > BULK_BYTES * 80
    assert found["cut_ns"] is None, "a transfer that the experiment's end cuts is not complete"

    # Two hosts send at their links' rate, and the port drops half: no queue in the fabric holds back a sender, though both
    # sockets hold fewer packets than the port.
    assert found["drops"] > 500 and all(sent > 0.9 * 0.4 * 100e6 / 8 for sent in found["sent"])


def test_a_figure_is_measured_concluded_and_drawn(tmp_path: Path) -> None:
    record, picture = tmp_path / "fairness.json", tmp_path / "fairness.png"
    argv = [sys.executable, "mininet/xco_fairness.py", "--virtual", "--quick", "--json", str(record), "--plot", str(picture)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text())
    runs = {run["policy"]: run for run in found["runs"]}
    assert runs["timeslice"]["goodput_mbps"] > 900 and runs["timeslice"]["jain"] > 0.99
    assert runs["timeslice"]["slots"] > 500 and runs["timeslice"]["late_slots"] == 0
    assert runs["uncoordinated"]["goodput_mbps"] < 500
    assert found["verdict"].startswith("As published: ") and found["verdict"] in done.stdout
    assert found["confidence"]["level"] == "exact"
    assert picture.read_bytes().startswith(b"\x89PNG")
