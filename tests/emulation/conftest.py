"""What tests on a real kernel need: root for all; for whole fabrics a box, which leaves nothing behind; and processors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation import box
from tests.emulation.failures import pytest_terminal_summary  # noqa: F401 -- a hook
from tests.emulation.inconclusive import pytest_runtest_makereport, pytest_runtest_setup  # noqa: F401 -- hooks


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips every test here without root, and says why."""
    if os.geteuid() == 0:
        return
    here = os.path.dirname(__file__)  # noqa: PTH120 -- compared as text
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.skip(reason="needs root: it makes network namespaces"))


@pytest.fixture(scope="session")
def in_a_box() -> None:
    """Skips a test of emulated fabrics outside a box."""
    if not box.inside():
        pytest.skip("needs a box: run `make emulation-tests`, or `python -m emulation.box -- pytest tests/emulation`")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that the users of Baton's processes can pass through, as they can't pass pytest's own; removed at the end."""
    with tempfile.TemporaryDirectory(prefix="baton-test-") as name:
        Path(name).chmod(0o711)
        yield Path(name)
