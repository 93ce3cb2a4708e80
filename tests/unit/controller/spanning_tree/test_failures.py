"""What is logged of errors that last."""

from __future__ import annotations

import logging

import pytest

from controller.spanning_tree.failures import KINDS_MAX, TELL_AGAIN_NS, Failures

Caplog = pytest.LogCaptureFixture


@pytest.fixture
def failures(caplog: Caplog) -> Failures:
    caplog.set_level("INFO", "baton.test")
    return Failures("reading", logging.getLogger("baton.test"))


def test_one_that_lasts_is_logged_again_but_seldom_with_its_number(failures: Failures, caplog: Caplog) -> None:
    for second in range(1_300):
        failures.failed(LookupError("x"), second * 10**9)
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]
    assert "has failed 1201 times in succession, now with LookupError" in caplog.records[-1].getMessage()
    assert TELL_AGAIN_NS == 600 * 10**9


def test_another_one_has_its_traceback_and_of_many_kinds_only_some(failures: Failures, caplog: Caplog) -> None:
    for each in (LookupError, OSError, LookupError, OSError):
        failures.failed(each("x"), 0)
    assert len(caplog.records) == 2
    for number in range(2 * KINDS_MAX):
        failures.failed(type(f"E{number}", (Exception,), {})("x"), 0)
    assert len(caplog.records) == KINDS_MAX


def test_its_end_is_logged_and_the_next_one_is_new(failures: Failures, caplog: Caplog) -> None:
    failures.went_well()
    for _ in range(2):
        failures.failed(LookupError("x"), 0)
        failures.went_well()
        failures.went_well()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"] * 2
