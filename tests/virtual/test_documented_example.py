"""The experiment of docs/experiments.md runs as it stands there, and shows what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_twenty_lines_run_and_show_what_coordination_gains(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "experiments.md").read_text(), re.DOTALL)
    assert len(program.splitlines()) <= 20
    (tmp_path / "mine.py").write_text(program)
    inside = [sys.executable, str(tmp_path / "mine.py")]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *inside]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    without, with_it = done.stdout.splitlines()
    found = re.compile(r"(\w+): UDP (\d+), TCP (\d+) Mb/s, (\d+) dropped, exact")
    first, second = (found.fullmatch(line) for line in (without, with_it))
    assert first and second, done.stdout
    assert (first[1], second[1]) == ("uncoordinated", "timeslice")
    assert int(second[3]) > 400 > int(first[3]) and int(second[4]) == 0 < int(first[4])
