"""bench/computing/: what it says of times that it has measured."""

from __future__ import annotations

import pytest

from bench.computing.policies import _spread


@pytest.mark.parametrize("times_us", [[7], [1, 2], [50, 60, 240], list(range(1, 40))])
def test_a_percentile_is_one_of_the_times_and_never_above_the_longest(times_us: list[int]) -> None:
    found = _spread([1000 * time for time in times_us])
    assert found["p50"] <= found["p99"] <= found["max"] == max(times_us)
    assert {found["p50"], found["p99"]} <= set(times_us)
