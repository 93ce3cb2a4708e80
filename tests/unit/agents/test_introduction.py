"""The first line of an agent's log, and what it says of a rate above the link's."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.config import AgentConfig
from agents.run import introduction, rate_warning


@pytest.mark.parametrize(
    ("source", "link_bps", "says"),
    [
        ("--rate", 25 * 10**9, "eth0: 10Gbit (--rate; the link's own: 25Gbit), 10.0.0.4 (interface), tbf gates"),
        ("--rate", 0, "eth0: 10Gbit (--rate; the link's own: unknown), 10.0.0.4 (interface), tbf gates"),
        ("the link", 10**10, "eth0: 10Gbit (the link), 10.0.0.4 (interface), tbf gates"),
    ],
)
def test_it_says_the_rate_and_from_where_and_the_addresses(source: str, link_bps: int, says: str) -> None:
    config = AgentConfig("eth0", 10**10, Path("key"), rate_source=source)
    assert introduction(config, link_bps, "10.0.0.4 (interface)", "tbf") == says


def test_a_rate_above_the_links_is_named_with_what_to_do() -> None:
    text = rate_warning(10**10, 10**9)
    assert "10Gbit" in text and "leave --rate out, or say 1Gbit" in text
