"""A load so low that nothing comes in the time measured is measured as well."""

from __future__ import annotations

import pytest

from bench.computing.scale import Case, _part, _Slots
from controller.policies.compiled.library import why_missing


@pytest.mark.skipif(bool(why_missing()), reason="needs the core")
def test_nothing_came_and_no_part_of_it_was_granted() -> None:
    found = _Slots("core", Case(4, 1, "racks", 2_000_000, 2, 1e-7, reference=False), 1e-7).measure()
    assert found["granted_fraction"] is None and found["granted_in_time"] is None and found["grants"] == 0


def test_a_part_of_what_could_be_granted_is_rounded() -> None:
    assert _part(1.0, 3.0) == 0.3333 and _part(0.0, 3.0) == 0.0 and _part(0.0, 0.0) is None
