"""What `baton status --links` prints."""

from __future__ import annotations

from typing import Any

import pytest

from cli.operate.links import rows, show

FABRIC = {"blocked": [["a2", "t3"]], "not_found": [["c1", "a9"]], "links": []}
LINKS = [
    {"source": "a1", "target": "t3", "capacity_bps": 150_000_000, "from": "fabric file", "unmanaged_bps": 0},
    {"source": "a2", "target": "t3", "capacity_bps": 10_000_000_000, "from": "port speed", "unmanaged_bps": 0},
    {"source": "t3", "target": "t3:h6-p", "capacity_bps": 100_000_000, "from": "member's rate", "unmanaged_bps": 30_000_000},
]
PORTS = {"links": [{"source": "t3", "target": "t3:h6-p", "load_bps": 99_000_000, "rate_bps": 10**10, "dropped": 0}]}
FOUND: dict[str, Any] = {
    "coordinator": {"links": LINKS, "contended": [["t3", "t3:h6-p"]]}, "fabric": FABRIC, "ports": PORTS
}  # fmt: skip


def test_every_link_has_its_capacity_its_source_and_what_others_take(capsys: pytest.CaptureFixture[str]) -> None:
    show(FOUND)
    told = capsys.readouterr().out
    for words in ("150Mbit", "fabric file", "10Gbit", "port speed", "blocked", "member's rate", "30.0M", "99.0M", "contended"):
        assert words in told
    assert "c1 - a9, and there is no such link" in told
    assert max(map(len, told.splitlines())) <= 80


def test_long_names_stay_within_the_width(capsys: pytest.CaptureFixture[str]) -> None:
    long = [{**LINKS[2], "source": "rack-7-switch-of-the-second-row", "target": "rack-7-switch-of-the-second-row:enp134s0f1"}]
    show(FOUND | {"coordinator": {"links": long, "contended": []}})
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80 and "member's rate" in told and "carries" in told


def test_without_a_coordinator_the_fabrics_own_links_are_shown() -> None:
    (row,) = rows({"coordinator": None, "fabric": FABRIC | {"links": LINKS[:1]}, "ports": None})
    assert (row.source, row.capacity_bps, row.load_bps) == ("a1", 150_000_000, None)


def test_before_anything_is_learned_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show({"coordinator": None, "fabric": None, "ports": None})
    assert "no link is known yet" in capsys.readouterr().out
