"""Options of agents that tag flows by priority, for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulation.namespaces import run


@pytest.fixture(scope="module")
def empty_cgroup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cgroup without processes, so that agents change the congestion control of none; mounted where emulated hosts see it."""
    root = tmp_path_factory.mktemp("cgroup")
    run("mount", "-t", "cgroup2", "none", str(root))
    try:
        made = root / f"baton-test-{os.getpid()}"
        made.mkdir()
        yield made
        made.rmdir()
    finally:
        run("umount", str(root))


@pytest.fixture(scope="module")
def priority_options(empty_cgroup: Path) -> tuple[str, ...]:
    """Request it before the hosts are made: they see only what was mounted by then."""
    return ("--priorities", "--cgroup", str(empty_cgroup))
