"""Flow sizes in bins, and bins in reports: nothing is lost on the way, and every size has its place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.bodies.flows.priorities import ROWS_MAX, SIZE_ROW, SizeCount, size_reports
from protocol.bodies.flows.size_bins import BINS, EDGES, bin_of
from protocol.messages import decode
from tests.unit.protocol.protocol_strategies import KEY, PROPERTY, frame_of, size_counts, u32, u64


class TestBins:
    """Log-spaced, without a gap, the same on every host."""

    @given(u64)
    @PROPERTY
    def test_a_size_lies_between_its_bins_edges(self, size: int) -> None:
        at = bin_of(size)
        assert EDGES[at] <= size < EDGES[at + 1]

    def test_no_bin_is_wider_than_a_quarter_of_its_sizes(self) -> None:
        assert all(EDGES[at + 1] - EDGES[at] <= max(1, EDGES[at] / 4) for at in range(BINS))

    def test_edges_rise_from_0_to_the_end_of_64_bits(self) -> None:
        assert EDGES[0] == 0 and EDGES[-1] == 1 << 64
        assert list(EDGES) == sorted(set(EDGES))


class TestReports:
    """A period's counts in as few frames as hold them."""

    @given(u32, u64, st.lists(size_counts, max_size=3 * ROWS_MAX))
    @PROPERTY
    def test_every_report_fits_a_frame_and_together_they_are_all_rows(
        self, version: int, period_ns: int, counts: list[SizeCount]
    ) -> None:
        reports = size_reports(version, period_ns, counts)
        assert all(len(frame_of(report)) <= 1514 for report in reports)
        assert all(decode(frame_of(report), KEY).message == report for report in reports)
        rows = b"".join(report.rows for report in reports)
        assert [SizeCount(*row) for row in SIZE_ROW.struct.iter_unpack(rows)] == counts
        assert len(reports) == max(1, -(-len(counts) // ROWS_MAX))

    @given(u64, size_counts, st.integers(ROWS_MAX + 1, 400))
    @PROPERTY
    def test_the_period_is_told_once(self, period_ns: int, count: SizeCount, rows: int) -> None:
        periods = [report.period_ns for report in size_reports(1, period_ns, [count] * rows)]
        assert periods == [period_ns] + [0] * (len(periods) - 1)

    def test_a_period_without_flows_is_reported_for_it_says_that_the_link_was_idle(self) -> None:
        (report,) = size_reports(3, 10**10, [])
        assert (report.version, report.period_ns, report.rows) == (3, 10**10, b"")
