"""Without a kernel of virtual time every test here is skipped, and says how to get one. The longest test comes first.

A whole run of all tests stays under an hour: those that have not begun after `BUDGET_S` are skipped (tests/time_budget.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.virtual import kernel
from tests.time_budget import skip_after

LONGEST = "test_soak.py"
"""It takes one of two processes for itself; the other one takes on the rest meanwhile."""
BUDGET_S = 55 * 60


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test after the time budget."""
    skip_after(BUDGET_S, "run `make test-virtual` alone")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name != LONGEST)
    if kernel.find() is None:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs the kernel of virtual time: run `make virtual`"))
