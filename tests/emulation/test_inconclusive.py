"""A failure counts unless the host took the processors; a test that passes has passed either way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
def test_fails():
    raise OSError("no")

def test_passes():
    pass
"""


def run(directory: Path, **constants: float) -> subprocess.CompletedProcess[str]:
    """Runs `TESTS` with the hooks, some of whose constants are changed."""
    (directory / "test_it.py").write_text(TESTS)
    lines = [
        "from tests.emulation import inconclusive",
        "from tests.emulation.inconclusive import pytest_runtest_makereport, pytest_runtest_setup",
    ]
    lines += [f"inconclusive.{name} = {value}" for name, value in constants.items()]
    (directory / "conftest.py").write_text("\n".join(lines))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BATON_TESTS_BEGAN": str(int(time.time()))}
    command = (sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(directory))
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("most", "says"), [(1.0, "1 failed, 1 passed"), (-1.0, "1 passed, 1 skipped")])
def test_a_failure_is_skipped_with_its_reason_only_above_the_bound(tmp_path: Path, most: float, says: str) -> None:
    done = run(tmp_path, MOST_STOLEN=most)
    assert says in done.stdout, done.stdout + done.stderr
    assert ("inconclusive" in done.stdout) is (most < 0) and "OSError: no" in done.stdout
    assert done.returncode == (most > 0)


@pytest.mark.parametrize(("budget_s", "says"), [(60, "1 failed, 1 passed"), (-60, "2 skipped")])
def test_when_the_time_is_over_the_rest_is_skipped_with_that_reason(tmp_path: Path, budget_s: float, says: str) -> None:
    done = run(tmp_path, MOST_STOLEN=1.0, BUDGET_S=budget_s)
    assert says in done.stdout, done.stdout + done.stderr
    assert ("minutes are over" in done.stdout) is (budget_s < 0)
