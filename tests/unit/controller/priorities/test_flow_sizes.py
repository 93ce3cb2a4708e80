"""Distributions of flow sizes, and the files of the published ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from controller.priorities import flow_sizes
from controller.priorities.flow_sizes import FlowSizes
from emulation import cdfs


class TestFlowSizes:
    """Moments and quantiles."""

    def test_moments_are_those_of_a_sample(self) -> None:
        sizes = FlowSizes((10.0, 20.0, 100.0, 1000.0), (0.0, 0.3, 0.3, 1.0))
        sample = sizes.quantile((np.arange(400_000) + 0.5) / 400_000)
        for cut in (5, 15, 50, 400, 2000):
            part, under = sizes.partial(cut), sample[sample <= cut]
            assert float(part.finished) == pytest.approx(len(under) / 400_000, abs=1e-4)
            assert float(part.below) == pytest.approx(under.sum() / 400_000, rel=1e-3)
            assert float(part.square) == pytest.approx((under**2).sum() / 400_000, rel=1e-3)

    def test_a_histogram_is_spread_over_its_bins(self) -> None:
        sizes = FlowSizes.from_histogram([0, 10, 20, 40, 80], [0, 1, 3, 0])
        assert sizes == FlowSizes((10.0, 20.0, 40.0), (0.0, 0.25, 1.0))

    def test_the_last_share_is_1_however_python_sums(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(flow_sizes, "sum", math.fsum, raising=False)  # as exact as Python 3.12's, and Ubuntu has that
        assert FlowSizes.from_histogram(range(11), [0.1] * 10).cdf[-1] == 1

    @pytest.mark.parametrize(
        ("sizes", "cdf", "names"),
        [
            ((0.0,), (1.0,), "two"),
            ((0.0, 1.0), (0.1, 1.0), "from 0"),
            ((1.0, 1.0), (0.0, 1.0), r"sizes\[1\]"),
            ((0.0, 1.0, 2.0), (0.0, 1.1, 1.0), r"cdf\[2\]"),
            ((-1.0, 1.0), (0.0, 1.0), r"sizes\[0\]"),
            ((0.0, float("inf")), (0.0, 1.0), "finite"),
        ],
    )
    def test_what_is_no_distribution_is_refused(self, sizes: tuple[float, ...], cdf: tuple[float, ...], names: str) -> None:
        with pytest.raises(ValueError, match=names):
            FlowSizes(sizes, cdf)

    @pytest.mark.parametrize("counts", [[0, 0], [1, -1], [1]])
    def test_counts_that_are_no_histogram_are_refused(self, counts: list[int]) -> None:
        with pytest.raises(ValueError, match="counts"):
            FlowSizes.from_histogram([1, 2, 3], counts)


class TestPublishedDistributions:
    """emulation/cdfs."""

    @pytest.mark.parametrize(("name", "mean_bytes"), [("web_search", 1.71e6), ("data_mining", 12.7e6)])
    def test_their_means_are_the_known_ones(self, name: str, mean_bytes: float) -> None:
        assert cdfs.load(name).mean() == pytest.approx(mean_bytes, rel=0.005)

    @pytest.mark.parametrize(("name", "mean_packets"), [("web_search_ns2", 1138), ("data_mining_ns2", 5117)])
    def test_those_in_packets_are_in_bytes_with_jumps_spread_over_a_packet(self, name: str, mean_packets: float) -> None:
        sizes = cdfs.load(name)
        assert sizes.mean() / 1460 == pytest.approx(mean_packets, rel=0.005)
        assert sizes.sizes[1] - sizes.sizes[0] == 1460

    def test_an_unknown_name_lists_the_known(self) -> None:
        with pytest.raises(ValueError, match="web_search"):
            cdfs.load("websearch")

    @pytest.mark.parametrize("text", ["0 0\n10 x", "0 0\n10", "0 0\nunit"])
    def test_a_line_that_cannot_be_read_is_named(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"sizes\.txt, line 2"):
            cdfs.parse(text, "sizes.txt")
