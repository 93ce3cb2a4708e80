"""Without a kernel of virtual time every test here is skipped, and says how to get one. The longest test comes first.

A whole run of all tests stays under an hour: those that have not begun `BUDGET_S` after it began (BATON_TESTS_BEGAN, which the
Makefile and .ci/run set) are skipped, with that reason.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from emulation.virtual import kernel

LONGEST = "test_soak.py"
"""It takes one of two processes for itself; the other one takes on the rest meanwhile."""


BUDGET_S = 55 * 60
BEGAN_S = int(os.environ.get("BATON_TESTS_BEGAN", 1 << 62))  # seconds since 1970; without it there is no bound


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test after the time budget."""
    if time.time() - BEGAN_S > BUDGET_S:
        pytest.skip(f"inconclusive: {BUDGET_S / 60:g} minutes are over; run `make test-virtual` alone")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name != LONGEST)
    if kernel.find() is None:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs the kernel of virtual time: run `make virtual`"))
