"""What the record of a swarm says of its frames."""

from __future__ import annotations

from bench.swarm import swarm
from bench.swarm.library import Counts


def test_leases_of_rates_are_not_among_the_slots_of_which_some_are_late() -> None:
    """They are never late: of 10 slots and 990 leases, 5 late ones are half."""
    after = Counts()
    after.grants, after.rate_grants, after.late = 1000, 990, 5
    found = swarm._frames(Counts(), after, 2.0)
    assert (found["late_fraction"], found["grants_per_s"]) == (0.5, 500.0)
