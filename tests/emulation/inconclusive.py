"""Skips failures on a machine whose host gives its processors to other machines ("steal", proc(5)): they show nothing.

A test that fails while the host takes more than `MOST_STOLEN` of the processor time that this machine wanted is inconclusive:
it is skipped, with the share taken and the failure. A test that passes has passed. On such a machine everything takes longer,
too: tests that have not begun `BUDGET_S` after `make test` began are skipped (tests/time_budget.py). conftest.py installs the
hooks.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from emulation.measuring.fidelity import CpuTimes
from tests.time_budget import skip_after

MOST_STOLEN = 0.1
BUDGET_S = 38 * 60  # tests in virtual time come after these
_begun = pytest.StashKey[CpuTimes]()
_before = CpuTimes.now()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Records when a test began; skips it after the time budget."""
    if _begun not in item.stash:
        item.stash[_begun] = CpuTimes.now()
    skip_after(BUDGET_S, f"the host has taken {CpuTimes.now().stolen_since(_before):.0%} of the processors")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a failure into a skip if the host took too much processor time."""
    report = yield
    if report.failed and (stolen := CpuTimes.now().stolen_since(item.stash[_begun])) > MOST_STOLEN:
        error = call.excinfo.exconly().splitlines()[0][:200] if call.excinfo else ""
        reason = f"inconclusive: the host took {stolen:.0%} of what this machine wanted of its processors; failed by {error}"
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {reason}")
    if call.when == "teardown":
        del item.stash[_begun]
    return report
