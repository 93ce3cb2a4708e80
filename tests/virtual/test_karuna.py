"""Flows with deadlines in virtual time, where the kernel has no struct_ops: MCP by callbacks beside the kernel's DCTCP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def fared(scheme: str) -> dict[str, Any]:
    """What karuna_run.py printed under a scheme."""
    program = [sys.executable, "-m", "tests.virtual.karuna_run", scheme]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_beside_bulk_traffic_a_flow_meets_its_deadline_just_in_time_by_mcp_and_misses_it_without() -> None:
    mcp, dctcp = fared("mcp"), fared("dctcp")
    assert mcp["way"] == dctcp["way"] == "sock_ops"
    assert mcp["met"] and 0.85 <= mcp["ratio"] <= 1
    assert mcp["ended"] == ["IN_TIME"] and mcp["drops"] == 0
    assert not dctcp["met"] and dctcp["ratio"] > 1
    assert not dctcp["ended"], "MCP is not there"
