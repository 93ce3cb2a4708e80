"""Links in virtual time: packets leave when a link of exactly their rate would send them, and each is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emulation.traffic.workloads import DATAGRAM_BYTES

ROOT = Path(__file__).resolve().parents[2]
GIGABIT = 1_000_000_000
WHOLE_FRAME = 1472  # of application bytes


def links(rate_bps: int, *, size: int = WHOLE_FRAME, duration_s: float = 0.1, exact: bool = True) -> dict[str, Any]:
    """What links_run.py prints."""
    options = [str(rate_bps), str(size), str(duration_s), "exact" if exact else "htb"]
    program = [sys.executable, "-m", "tests.virtual.inside.links_run", *options]
    argv = [sys.executable, "-m", "cli.main", "virtual", "run", "--", *program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def gigabit() -> dict[str, Any]:
    return links(GIGABIT)


class TestExactPorts:
    """Two hosts send into one port as fast as their links take it."""

    def test_at_a_gigabit_the_distances_between_packets_are_exact(self, gigabit: dict[str, Any]) -> None:
        fidelity = gigabit["fidelity"]["s1-h3"]
        assert fidelity["back_to_back"] > 0.95 * fidelity["packets"] > 7000
        assert fidelity["error"]["p99.9"] <= 0.01
        assert fidelity["max_error_ns"] <= 1

    def test_at_ten_gigabits_they_are_exact_to_a_nanosecond(self) -> None:
        fidelity = links(10 * GIGABIT, size=DATAGRAM_BYTES, duration_s=0.02)["fidelity"]["s1-h3"]
        assert fidelity["back_to_back"] > 0.95 * fidelity["packets"] > 14_000
        assert fidelity["max_error_ns"] <= 1

    def test_every_packet_is_received_or_counted_as_dropped(self, gigabit: dict[str, Any]) -> None:
        assert sum(gigabit["sent"]) == gigabit["received"] + gigabit["dropped"]
        assert gigabit["dropped"] > 0.4 * sum(gigabit["sent"])

    def test_the_link_is_as_fast_as_it_should_be_and_its_buffer_as_deep(self, gigabit: dict[str, Any]) -> None:
        assert gigabit["goodput_mbps"] == pytest.approx(1000 * WHOLE_FRAME / 1514, rel=0.002)
        assert gigabit["longest_queue"] == gigabit["environment"]["buffer_packets"] == 100

    def test_a_port_that_nobody_changed_has_not_drifted(self, gigabit: dict[str, Any]) -> None:
        assert gigabit["drifts"] == [] and gigabit["environment"]["exact_links"]


def test_the_distances_of_a_token_bucket_are_recorded_too() -> None:
    found = links(GIGABIT, exact=False)
    fidelity = found["fidelity"]["s1-h3"]
    assert not found["environment"]["exact_links"]
    assert fidelity["back_to_back"] > 0.95 * fidelity["packets"] > 7000
    assert sum(found["sent"]) == found["received"] + found["dropped"]
