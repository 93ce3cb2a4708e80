"""A failure counts unless the host took the processors; what passes passes either way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
def test_fails():
    raise OSError("no")

def test_passes():
    pass
"""


@pytest.mark.parametrize(("most", "says"), [(1.0, "1 failed, 1 passed"), (-1.0, "1 passed, 1 skipped")])
def test_a_failure_is_skipped_with_its_reason_only_above_the_bound(tmp_path: Path, most: float, says: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    hooks = "from inconclusive import pytest_runtest_makereport, pytest_runtest_setup"
    (tmp_path / "conftest.py").write_text(f"import inconclusive\n{hooks}\ninconclusive.MOST_STOLEN = {most}\n")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
    command = (sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(tmp_path))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert says in done.stdout, done.stdout + done.stderr
    assert ("inconclusive" in done.stdout) is (most < 0) and "OSError: no" in done.stdout
    assert done.returncode == (most > 0)
