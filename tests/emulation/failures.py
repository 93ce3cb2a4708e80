"""What failed, told last: `make test` runs several boxes at once, so the output of one that failed is above that of others.

Each run appends its failures to the file that the Makefile names (BATON_TESTS_FAILED), and the Makefile prints that file at
the end. conftest.py installs the hook.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Appends a line, or more if its message has more, for each test that failed or could not be set up."""
    if (path := os.environ.get("BATON_TESTS_FAILED")) is None:
        return
    with Path(path).open("a") as file:
        for report in terminalreporter.getreports("failed") + terminalreporter.getreports("error"):
            crash = getattr(report.longrepr, "reprcrash", None)
            file.write(f"failed: {report.nodeid}: {crash.message if crash else report.longrepr}\n")
