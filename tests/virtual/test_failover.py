"""Two controllers in virtual time: the leader is killed under load, its standby takes over, no flow is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_standby_takes_over_and_no_flow_is_lost(tmp_path: Path) -> None:
    record = tmp_path / "failover.json"
    argv = [sys.executable, "-m", "cli.main", "bench", "failover", "--virtual", "--json", str(record)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text())
    assert found["standby_leads"] and found["tcp_flows_lost"] == 0 and found["agents_restarted"] == 0
    assert found["accepted_from_two_at_once"] == 0
    assert 0 < found["free_after_ms"] <= 60 and found["coordinated_again_after_ms"] <= 150
