"""What failed is appended to the file that the Makefile prints at the end; what passed when it was tried again is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

tries = []

@pytest.fixture
def broken():
    raise OSError("no fabric")

def test_fails():
    assert 1 == 2, "no slot"

def test_cannot_begin(broken):
    pass

def test_passes_when_tried_again():
    tries.append(1)
    assert len(tries) == 2
"""


def test_failures_are_appended_with_their_messages(tmp_path: Path) -> None:
    told = tmp_path / "failed"
    told.write_text("failed: of another box\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("from tests.emulation.failures import pytest_terminal_summary")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BATON_TESTS_FAILED": str(told)}
    command = (sys.executable, "-m", "pytest", "--reruns", "1", "-p", "no:cacheprovider", str(tmp_path))
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    lines = [line for line in told.read_text().splitlines() if line.startswith("failed: ")]
    assert lines == [
        "failed: of another box",
        "failed: test_it.py::test_fails: AssertionError: no slot",
        "failed: test_it.py::test_cannot_begin: OSError: no fabric",
    ]
