"""The steps policy with its core in C: the same plans as `controller.policies.steps`, which is the reference."""

from __future__ import annotations

import ctypes

from controller.policies.base import Regulated
from controller.policies.compiled import library as compiled
from controller.policies.compiled.library import Array, at
from controller.policies.compiled.met import Met
from controller.policies.compiled.places import PUT_AT_ONCE
from controller.policies.compiled.slotted import Slotted
from controller.policies.compiled.spots import Spots
from controller.policies.groups import Pairs
from controller.policies.steps.policy import AT_ONCE, Steps
from protocol.units import FRAME_BYTES


class CompiledSteps(Slotted):
    """Grants each node one destination a step. A `BatchPolicy`."""

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        burst_bytes: int = 32 * FRAME_BYTES,
        at_once: int = AT_ONCE,
        counted: bool = False,
        library: ctypes.CDLL | None = None,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name; BuildError, OSError: there is no library here.

        Args:
            library: a build of the library other than this machine's own.
        """
        reference = Steps(
            slice_ns=slice_ns, minimum_active_ns=minimum_active_ns, headroom=headroom, burst_bytes=burst_bytes,
            at_once=at_once, counted=counted,
        )  # fmt: skip
        self.terms, self.step_ns, self.counted = reference.terms, reference.step_ns, counted
        library = library or compiled.STEPS.loaded()
        core = library.steps_new(self.step_ns, self.terms.headroom_ppm, burst_bytes, FRAME_BYTES, at_once, counted)
        super().__init__(library, "steps", core)
        self._met = None
        self._places = self._spots = Spots(library, "steps", core)

    def _after_recharge(self) -> None:
        left = True
        while left:
            with self.lock:
                left = self._c.steps_replace(self._core, PUT_AT_ONCE) > 0
        with self.lock:
            self._c.steps_settle(self._core)

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes slots of pairs that are no longer regulated. Pairs are kept in Python, too, only where groups say who is."""
        if not isinstance(pairs, Pairs):
            self._met = None
            self._tell(pairs, now_ns)
            return
        if self._met is None:
            self._met = Met()
            for node, destination in zip(*self._places.pairs(), strict=True):
                self._met.backlogs([node], [0, 1], [destination])
        super().set_regulated(pairs, now_ns=now_ns)

    def left(self, node: int, *, now_ns: int) -> None:
        """Forgets a node, all that was granted to it or towards it, and where it is."""
        super().left(node, now_ns=now_ns)
        self._spots.left(node)

    def take_sizes(self, now_ns: int, count: int, nodes: Array, offsets: Array, destinations: Array, sizes: Array) -> None:
        if not self.counted:
            self.take_backlogs(now_ns, count, nodes, offsets, destinations, None)
            return
        if self._met is not None:
            self.meet(nodes, offsets, destinations)
            self.attend(now_ns=now_ns)
        with self.lock:
            now_ns = self._latest_ns(now_ns)
            self._c.steps_sized_backlogs(self._core, now_ns, count, at(nodes), at(offsets), at(destinations), at(sizes))
        self._places.fill()
