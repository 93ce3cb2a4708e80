"""What the tests of the timeslice policy share: hosts, a slice's length, and a way to make the policy."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

from controller.policies.timeslice import Timeslice
from tests.unit.controller.policies.policy_networks import FIRST

MS = 1_000_000
SLICE = 2 * MS
A, B, C, D, E = range(FIRST, FIRST + 5)


def examples(count: int) -> settings:
    """Settings for a property that takes longer than most."""
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def timeslice(**arguments: Any) -> Timeslice:  # noqa: ANN401 -- ints and floats by name
    """A policy with slices of `SLICE`, of the kind under test (policy_kinds.py)."""
    return Timeslice(slice_ns=SLICE, **arguments)
