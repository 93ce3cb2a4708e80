"""A whole run of tests ends in time: what has not begun by then is skipped; without a begin there is no bound."""

from __future__ import annotations

import time

import pytest

from tests import time_budget
from tests.virtual import conftest as of_virtual_time


@pytest.mark.parametrize(("ago_s", "skipped"), [(of_virtual_time.BUDGET_S + 60, True), (of_virtual_time.BUDGET_S - 60, False)])
def test_tests_in_virtual_time_that_have_not_begun_in_time_are_skipped(
    ago_s: float, skipped: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_budget, "BEGAN_S", time.time() - ago_s)
    if skipped:
        with pytest.raises(pytest.skip.Exception, match="55 minutes are over; run `make test-virtual` alone"):
            of_virtual_time.pytest_runtest_setup(request.node)
    else:
        of_virtual_time.pytest_runtest_setup(request.node)


def test_without_a_begin_there_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_budget, "BEGAN_S", 1 << 62)
    time_budget.skip_after(0, "never")
