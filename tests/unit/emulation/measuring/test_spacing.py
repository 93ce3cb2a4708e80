"""How exactly packets followed one another: buckets of errors, percentiles, and what a record says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.fabric import spacing_recorder
from emulation.fabric.filters import SOURCES
from emulation.measuring import spacing
from emulation.measuring.spacing import LinkSpacing, bucket_end


def bucket_of(error: int) -> int:
    """As the eBPF program counts."""
    return next(bucket for bucket in range(spacing_recorder.BUCKETS) if error <= bucket_end(bucket))


def counted(*errors: int, worst: int | None = None) -> LinkSpacing:
    buckets = [0] * spacing_recorder.BUCKETS
    for error in errors:
        buckets[bucket_of(error)] += 1
    return spacing.of_counts(len(errors) + 1, len(errors), max(errors, default=0) if worst is None else worst, 0, buckets)


class TestBuckets:
    """Errors are counted in buckets."""

    def test_small_errors_are_counted_each(self) -> None:
        assert [bucket_end(bucket) for bucket in range(17)] == list(range(17))

    def test_the_ends_grow_and_the_last_one_is_the_largest_error_that_is_told_apart(self) -> None:
        ends = [bucket_end(bucket) for bucket in range(spacing_recorder.BUCKETS)]
        assert ends == sorted(set(ends)) and ends[-1] == 2**33 - 1

    @given(st.integers(16, 2**33 - 1))
    def test_a_bucket_is_at_most_a_sixteenth_of_its_error_wide(self, error: int) -> None:
        bucket = bucket_of(error)
        assert bucket_end(bucket) - bucket_end(bucket - 1) <= error / 16

    def test_the_program_has_as_many_buckets_and_the_same_layout(self) -> None:
        header = (SOURCES / "links.h").read_text()
        most, fine = (int(re.search(rf"#define {name} (\d+)", header).group(1)) for name in ("MOST_BITS", "FINE_BITS"))  # type: ignore[union-attr]
        assert fine == spacing.FINE_BITS and (most - fine + 1) << fine == spacing_recorder.BUCKETS
        fields = header[header.index("struct link_spacing {") :].partition("buckets[BUCKETS]")[0]
        assert fields.count("__u64 ") == spacing_recorder._HEAD.size // 8 + 1


class TestErrors:
    """What the counts say."""

    def test_without_packets_that_followed_another_there_is_no_error(self) -> None:
        nothing = LinkSpacing(packets=5)
        assert nothing.error(99) is None and nothing.beyond(0.1) is None and nothing.ccdf() == []
        assert nothing.to_dict()["max_error_ns"] is None
        assert spacing.sentence([nothing.to_dict()]) == "links: no packets left back to back"

    def test_exact_distances_have_no_error(self) -> None:
        exact = counted(*[0] * 1000)
        assert exact.error(99.9) == 0 and exact.ccdf() == [(1e-6, 0.0)]
        found = spacing.sentence([exact.to_dict()])
        assert found == "links: 99.9 % of 1,000 packets that left back to back within 0.00% of size / rate"

    def test_of_several_runs_the_worst_is_told(self) -> None:
        runs = (counted(*[0] * 1000), counted(*[200_000] * 500), LinkSpacing())
        found = spacing.sentence([run.to_dict() for run in runs])
        assert found.startswith("links: 99.9 % of 1,500 packets")
        assert found.endswith("within 20.00% of size / rate in the worst run")
        assert spacing.sentence([]) == ""

    def test_percentiles_are_at_most_a_sixteenth_too_large_and_never_above_the_largest_error(self) -> None:
        found = counted(*[100] * 989, *[10_000] * 10, 500_000)
        assert found.error(50) == pytest.approx(100e-6, rel=1 / 16)
        assert found.error(99) == pytest.approx(0.01, rel=1 / 16)
        assert found.error(99.9) == pytest.approx(0.01, rel=1 / 16)
        assert found.error(100) == 0.5

    @given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50), st.floats(0.1, 100))
    def test_a_percentile_bounds_the_errors_from_above(self, errors: list[int], percent: float) -> None:
        found = counted(*errors).error(percent)
        assert found is not None
        assert sum(error <= found * 1e6 * (1 + 1e-9) for error in errors) >= percent / 100 * len(errors) - 1e-6

    def test_the_ccdf_falls_to_zero_and_says_nothing_twice(self) -> None:
        points = counted(*[3] * 500, *[40_000] * 499, 3_000_000).ccdf()
        fractions = [fraction for _, fraction in points]
        assert fractions == sorted(fractions, reverse=True) and fractions[-1] == 0
        assert points[0] == (1e-6, 1.0) and fractions.count(0.5) == 2
        assert points[-2] == (2.0, pytest.approx(0.001))

    def test_links_together_count_all_their_packets(self) -> None:
        both = LinkSpacing.of_all([counted(1, 2), counted(900_000), LinkSpacing(packets=7)])
        assert (both.packets, both.back_to_back, both.worst) == (12, 3, 900_000)
        assert both.error(100) == 0.9 and both.beyond(0.1) == pytest.approx(1 / 3)

    def test_a_record_has_each_link_and_all_together(self) -> None:
        record = spacing.record({"s1-h3": counted(5, 5), "s1-h1": LinkSpacing()})
        assert set(record) == {"all", "s1-h3", "s1-h1"}
        assert record["all"]["back_to_back"] == 2 and record["s1-h3"]["error"]["max"] == 5e-6
