"""The timeslice policy with its schedule in C: the same plans as `controller.policies.timeslice`, which is the reference."""

from __future__ import annotations

import ctypes

from controller.policies.compiled import library as compiled
from controller.policies.compiled.slotted import Slotted
from controller.policies.pairs import Terms, turn_bound
from controller.policies.slots import GRANTS_AT_ONCE
from protocol.units import FRAME_BYTES, SECOND_NS

IDLE_NS = 600 * SECOND_NS
"""A pair that has been idle for so long is forgotten, which the reference does not do: else the core's pairs become as many as
the square of the nodes, and each changed capacity or network is a look at all of them."""


class CompiledTimeslice(Slotted):
    """Grants each node one destination at a time; `minimum_fraction` below 1 makes it the hybrid policy. A `BatchPolicy`."""

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        minimum_fraction: float = 1.0,
        burst_bytes: int = 32 * FRAME_BYTES,
        patience: int = 4,
        at_once: int = GRANTS_AT_ONCE,
        library: ctypes.CDLL | None = None,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name; BuildError, OSError: there is no library here.

        Args:
            library: a build of the library other than this machine's own.
        """
        if patience < 1 or at_once < 1:
            raise ValueError("patience and at_once must be at least 1")
        self.patience = patience
        self.terms = Terms(
            slice_ns=slice_ns,
            minimum_active_ns=minimum_active_ns,
            headroom=headroom,
            minimum_fraction=minimum_fraction,
            burst_bytes=burst_bytes,
        )
        terms = compiled.Terms(
            slice_ns, minimum_active_ns, self.terms.headroom_ppm, self.terms.minimum_ppm, burst_bytes, FRAME_BYTES, patience,
            at_once,
        )  # fmt: skip
        library = library or compiled.SCHEDULE.loaded()
        super().__init__(library, "core", library.core_new(ctypes.byref(terms)))

    def attend(self, *, now_ns: int) -> int | None:
        """As in `Batched`; forgets some of the pairs that have long been idle."""
        with self.lock:
            self._c.core_forget_idle(self._core, self._latest_ns(now_ns), IDLE_NS)
        return super().attend(now_ns=now_ns)

    def turn_bound(self, others: int) -> int:
        """How many longest slots a wanted pair waits at most, when `others` are wanted beside it; as in the reference."""
        return turn_bound(self.patience, others)
