"""What people write for rates, sizes and durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.topology.topology_strategies import PROPERTY
from topology.units import (
    MAX_VALUE,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_link_rate,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("written", "rate_bps"),
    [
        ("100Mbit", 100_000_000),
        ("10G", 10_000_000_000),
        ("10g", 10_000_000_000),
        ("2.5Gbit/s", 2_500_000_000),
        ("100 Mb/s", 100_000_000),
        ("40Mbps", 40_000_000),
        ("1_000", 1_000),
        (" 64kbit ", 64_000),
        (1_000_000, 1_000_000),
        (1e9, 1_000_000_000),
    ],
)
def test_a_rate_in_any_unit_becomes_bits_a_second(written: str | float, rate_bps: int) -> None:
    assert parse_rate(written) == rate_bps


@pytest.mark.parametrize(
    "written",
    ["", "fast", "10X", "-5", "0", 0, "100MB", "100MBps", "0.5", "1e9", "9" * 30, True, None, "10G/s", float("nan"), 1e300],
)
def test_what_is_no_rate_is_refused_in_one_line_with_a_remedy(written: object) -> None:
    with pytest.raises(ValueError, match=r"^rate .*; \w+") as caught:
        parse_rate(written)  # type: ignore[arg-type]  # the point of the test
    assert "\n" not in str(caught.value)


@PROPERTY
@given(st.integers(1, MAX_VALUE))
def test_a_formatted_rate_reads_back_exactly(rate_bps: int) -> None:
    assert parse_rate(format_rate(rate_bps)) == rate_bps


@PROPERTY
@given(st.integers(0, MAX_VALUE) | st.integers(0, 9).map(lambda power: 10**power))
def test_a_formatted_duration_and_a_formatted_size_read_back_exactly(number: int) -> None:
    assert parse_duration(format_duration(number)) == number and parse_size(format_size(number)) == number


def test_durations_and_sizes_are_shown_in_their_largest_unit() -> None:
    durations = [format_duration(value) for value in (0, 999, 50_000_000, 1_500_000, 60 * 10**9)]
    assert durations == ["0", "999ns", "50ms", "1500us", "1min"]
    assert [format_size(value) for value in (0, 1_500, 65_536, 60_000, 4 * 10**6)] == ["0B", "1500B", "64KiB", "60KB", "4MB"]


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(100_000_000, "100Mbit"), (2_500_000_000, "2.5Gbit"), (10**10, "10Gbit"), (999, "999bit"), (1_001, "1.001Kbit")],
)
def test_a_rate_is_shown_in_its_largest_unit(rate_bps: int, text: str) -> None:
    assert format_rate(rate_bps) == text


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [("1500", 1500), ("1500B", 1500), ("60KB", 60_000), ("64KiB", 65_536), ("4M", 4_000_000), ("0", 0), ("1.5kB", 1500)],
)
def test_a_size_in_any_unit_becomes_bytes(written: str, size_bytes: int) -> None:
    assert parse_size(written) == size_bytes


@pytest.mark.parametrize("written", ["60Kb", "60Kbit", "iB", "big", "-1", "0.5", None])
def test_bits_and_nonsense_are_no_size(written: object) -> None:
    with pytest.raises(ValueError, match=r"^size .*; \w+"):
        parse_size(written)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize(
    ("written", "duration_ns"),
    [("10ms", 10**7), ("300us", 300_000), ("300 \xb5s", 300_000), ("300\u03bcs", 300_000), ("1.5s", 1_500_000_000), ("0", 0)],
)
def test_a_duration_in_any_unit_becomes_nanoseconds(written: str, duration_ns: int) -> None:
    assert parse_duration(written) == duration_ns


@pytest.mark.parametrize("written", ["10", 10, "10 Ms", "1.5ns", "soon", "-1ms"])
def test_a_duration_needs_its_unit(written: str | int) -> None:
    with pytest.raises(ValueError, match=r"^duration .*; \w+"):
        parse_duration(written)


def test_a_links_rate_without_its_unit_is_refused() -> None:
    assert parse_link_rate("100mbit") == 10**8 and parse_link_rate(10**9) == 10**9
    for rate in ("10", 100, "1kbit", "100Tbit"):
        with pytest.raises(ValueError, match="not from 1Mbit to 1Tbit; write the link's rate, such as 10Gbit"):
            parse_link_rate(rate)
