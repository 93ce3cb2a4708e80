"""Without a kernel of virtual time every test here is skipped, and says how to get one."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.virtual import kernel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if kernel.find() is None:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs the kernel of virtual time: run `make virtual`"))
