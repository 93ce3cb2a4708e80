"""Timeslices that share: a slot takes the rate that is left on its path, not only its full rate. Pure."""

from __future__ import annotations

from controller.policies.timeslice import Timeslice

MINIMUM_FRACTION = 0.1
"""Of its full rate, for which a pair takes a slot."""


class Hybrid(Timeslice):
    """The timeslice policy with a `minimum_fraction` below 1: a node too fast for what the others leave of a link is granted
    its slice at that rest, as long as the rest is a tenth of its full rate, instead of waiting for the link to be empty. All
    else, the bounds included, is as in `timeslice`."""

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        minimum_fraction: float = MINIMUM_FRACTION,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name."""
        super().__init__(
            slice_ns=slice_ns,
            minimum_active_ns=minimum_active_ns,
            headroom=headroom,
            minimum_fraction=minimum_fraction,
        )
