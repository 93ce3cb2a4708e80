"""The policies by name. Pure, but for the compiled policies, which are loaded when one of them is made first.

Turns (`timeslice`, `hybrid`, `steps`, and those of `auto`) and rates (`rate_limit`, and those of `auto`) are planned by the
compiled policies where these can be built, else by the references in Python: both give the same plans.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.config.settings import CoordinatorSettings
from controller.policies.auto import Auto
from controller.policies.base import Policy
from controller.policies.compiled.auto import CompiledAuto
from controller.policies.compiled.library import why_missing
from controller.policies.compiled.rate_limit import CompiledRateLimit
from controller.policies.compiled.steps import CompiledSteps
from controller.policies.compiled.timeslice import CompiledTimeslice
from controller.policies.free import Free
from controller.policies.hybrid import MINIMUM_FRACTION
from controller.policies.rates.policy import RateLimit
from controller.policies.steps.policy import Steps
from controller.policies.timeslice import Timeslice
from controller.policies.weekly import Weekly


def _auto(settings: CoordinatorSettings) -> Policy:
    turns, rates = _timeslice(settings), _rate_limit(settings)
    if isinstance(turns, CompiledTimeslice) and isinstance(rates, CompiledRateLimit):
        return CompiledAuto(turns, rates)
    assert isinstance(turns, Timeslice) and isinstance(rates, RateLimit), "all are compiled, or none is"
    return Auto(turns, rates)


def _timeslice(settings: CoordinatorSettings, minimum_fraction: float = 1.0) -> Timeslice | CompiledTimeslice:
    make = Timeslice if why_missing() else CompiledTimeslice
    return make(
        slice_ns=settings.slice_ns,
        minimum_active_ns=settings.minimum_active_ns,
        headroom=settings.headroom,
        minimum_fraction=minimum_fraction,
    )


def _hybrid(settings: CoordinatorSettings) -> Policy:
    return _timeslice(settings, MINIMUM_FRACTION)


def _rate_limit(settings: CoordinatorSettings) -> RateLimit | CompiledRateLimit:
    make = RateLimit if why_missing() else CompiledRateLimit
    return make(headroom=settings.headroom)


def _steps(settings: CoordinatorSettings) -> Policy:
    make = Steps if why_missing() else CompiledSteps
    return make(slice_ns=settings.slice_ns, minimum_active_ns=settings.minimum_active_ns, headroom=settings.headroom)


def _weekly(settings: CoordinatorSettings) -> Policy:
    return Weekly(settings.weekly)


def _free(_: CoordinatorSettings) -> Policy:
    return Free()


POLICIES: dict[str, Callable[[CoordinatorSettings], Policy]] = {
    "auto": _auto,
    "timeslice": _timeslice,
    "hybrid": _hybrid,
    "steps": _steps,
    "rate_limit": _rate_limit,
    "weekly": _weekly,
    "free": _free,
}
"""How each policy is made of the coordinator's settings; the keys are the names that configuration and CLI know."""

SLICED = frozenset(("timeslice", "hybrid", "steps"))
"""Those that grant all slots by slices. `auto` gives rates where a round of slices would take long."""


def make_policy(settings: CoordinatorSettings) -> Policy:
    """A new policy, that knows of nothing yet.

    Raises:
        ValueError: there is none of that name, or a setting is out of its range; says which.
    """
    try:
        make = POLICIES[settings.policy]
    except KeyError:
        raise ValueError(f"policy: there is no {settings.policy!r}; choose one of {', '.join(POLICIES)}") from None
    return make(settings)
