"""Sizes and rates in the tables of `baton status`, at the ends of their units."""

from __future__ import annotations

import pytest

from cli.operate.links import _rate
from cli.operate.status_view import _size


@pytest.mark.parametrize(("size", "text"), [(999_600, "1 MB"), (10**12, "1 TB"), (1234 * 10**9, "1.23 TB")])
def test_a_size_is_never_in_powers_of_ten(size: int, text: str) -> None:
    assert _size(size) == text


@pytest.mark.parametrize(("bps", "text"), [(0, "0"), (40_000, "40.0k"), (60_000, "0.1M"), (999_960_000, "1.00G")])
def test_a_link_that_carries_something_does_not_read_as_idle(bps: int, text: str) -> None:
    assert _rate(bps) == text
