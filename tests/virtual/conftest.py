"""Without a kernel of virtual time every test here is skipped, and says how to get one. The longest test comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.virtual import kernel

LONGEST = "test_soak.py"
"""It takes one of two processes for itself; the other one takes on the rest meanwhile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name != LONGEST)
    if kernel.find() is None:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs the kernel of virtual time: run `make virtual`"))
