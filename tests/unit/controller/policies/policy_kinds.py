"""Lets a module's tests run twice: with the references in Python, and with the compiled policies in their place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.hybrid import MINIMUM_FRACTION
from tests.unit.controller.policies import policy_slices


@pytest.fixture(scope="module", autouse=True, params=["reference", "compiled"])
def each_kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """To be imported by the module: its classes `Timeslice`, `Hybrid`, `RateLimit`, `Auto` are then those of the kind, and so
    are the policies of `policy_slices.timeslice`."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            patch.setattr(request.module, "Timeslice", CompiledTimeslice, raising=False)
            patch.setattr(policy_slices, "Timeslice", CompiledTimeslice)
            patch.setattr(request.module, "RateLimit", CompiledRateLimit, raising=False)
            patch.setattr(request.module, "Auto", CompiledAuto, raising=False)
            hybrid = partial(CompiledTimeslice, minimum_fraction=MINIMUM_FRACTION)
            patch.setattr(request.module, "Hybrid", hybrid, raising=False)
        yield
