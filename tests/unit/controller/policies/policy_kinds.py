"""Lets a module's tests of turns run twice: with the reference in Python, and with the compiled schedule in its place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.hybrid import MINIMUM_FRACTION


@pytest.fixture(scope="module", autouse=True, params=["reference", "compiled"])
def each_kind(request: pytest.FixtureRequest) -> Iterator[None]:
    """To be imported by the module: the classes that it knows as `Timeslice` and `Hybrid` are then those of the kind."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            patch.setattr(request.module, "Timeslice", CompiledTimeslice)
            hybrid = partial(CompiledTimeslice, minimum_fraction=MINIMUM_FRACTION)
            patch.setattr(request.module, "Hybrid", hybrid, raising=False)
        yield
