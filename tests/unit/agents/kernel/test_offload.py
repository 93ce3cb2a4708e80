"""How many frames a super-packet may have."""

from __future__ import annotations

import pytest

from agents.kernel.offload import HEADERS_BYTES, wanted_segments

FOUND = 65_535


@pytest.mark.parametrize(
    ("rate_bps", "mtu", "segments"),
    [(10**8, 1500, 1), (10**9, 1500, 8), (10**10, 1500, 82), (10**8, 9000, 1), (10**9, 9000, 1), (10**10, 9000, 13)],
)
def test_it_has_what_the_link_carries_in_100_us_in_frames_of_its_own_length(rate_bps: int, mtu: int, segments: int) -> None:
    frame_bytes = mtu + HEADERS_BYTES
    assert wanted_segments(rate_bps, FOUND, frame_bytes) == segments
    assert segments == 1 or segments * frame_bytes * 8 * 10**9 <= rate_bps * 100_000


def test_it_never_has_more_than_was_found() -> None:
    assert wanted_segments(10**10, 5, 1522) == 5
