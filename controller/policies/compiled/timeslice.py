"""The timeslice policy with its schedule in C: the same plans as `controller.policies.timeslice`, which is the reference.

`CompiledTimeslice` is a `Policy`. The same events can be given in batches, and plans taken as arrays (`SLOT`): for thousands of
hosts that spares an object for each slot.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Hashable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from controller.policies.base import NOTHING, Network, Plan, Policy, Regulated, Slot, SlotNumbers, Weights
from controller.policies.compiled import library as compiled
from controller.policies.pairs import Terms, turn_bound
from protocol.units import FRAME_BYTES

SLOT = np.dtype([(name, np.int64) for name in ("slot", "node", "destination", "start", "end", "bytes", "rate", "reserved")])
"""A slot as an array has it: the fields of `Slot`."""
RETURNED = np.dtype([(name, np.int64) for name in ("slot", "node", "destination", "unspent", "backlog")])
"""A slot that is given back: the bytes of its credit that were not used, and those that wait for the destination now."""
MOST, MOST_BPS = 1 << 62, 1 << 45
"""What is larger counts as this much: numbers and bytes that come from hosts; rates."""
_SLOT = struct.Struct("8q")
Words = NDArray[np.uint32]


class CompiledTimeslice(Policy):
    """Grants each node one destination at a time; `minimum_fraction` below 1 makes it the hybrid policy."""

    def __init__(
        self,
        *,
        slice_ns: int = 2_000_000,
        minimum_active_ns: int = 0,
        headroom: float = 0.98,
        minimum_fraction: float = 1.0,
        burst_bytes: int = 32 * FRAME_BYTES,
        patience: int = 2,
        library: ctypes.CDLL | None = None,
    ) -> None:
        """Raises ValueError: an argument out of its range, by name; BuildError, OSError: there is no library here.

        Args:
            library: a build of the library other than this machine's own.
        """
        self._core: int | None = None
        if patience < 1:
            raise ValueError("patience must be at least 1")
        self.patience = patience
        self.terms = Terms(
            slice_ns=slice_ns,
            minimum_active_ns=minimum_active_ns,
            headroom=headroom,
            minimum_fraction=minimum_fraction,
            burst_bytes=burst_bytes,
        )
        self.numbers = SlotNumbers()
        self._c = library or compiled.library()
        terms = compiled.Terms(
            slice_ns, minimum_active_ns, self.terms.headroom_ppm, self.terms.minimum_ppm, burst_bytes, FRAME_BYTES, patience
        )
        self._core = self._c.core_new(ctypes.byref(terms))
        self._network: Network | None = None
        self._links: dict[Hashable, int] = {}
        self._delays: dict[int, int] = {}
        self._counts = compiled.Counts()
        self._node, self._destination = ctypes.c_uint32(), ctypes.c_uint32()

    def turn_bound(self, others: int) -> int:
        """How many longest slots a wanted pair waits at most, when `others` are wanted beside it; as in the reference."""
        return turn_bound(self.patience, others)

    def __del__(self) -> None:
        if self._core is not None:
            self._c.core_free(self._core)
            self._core = None

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Keeps a slot, as it is, where its new path has room for it; revokes the slots that start last."""
        self._network = network
        self._links.clear()
        self._c.core_rewire(self._core, now_ns)
        self._place()
        self._c.core_settle(self._core)

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes slots of pairs that are no longer regulated."""
        nodes, offsets, destinations = array("I", pairs), array("I", [0]), array("I")
        for its in pairs.values():
            destinations.extend(sorted(its))
            offsets.append(len(destinations))
        self._c.core_regulate(self._core, now_ns, len(nodes), _at(nodes), _at(offsets), _at(destinations))
        self._place()

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Lengthens or shortens the slots of a pair from its next one on."""
        Weights().set(node, destination, weight)  # raises if it is none
        any_node = compiled.ANY
        self._c.core_weight(
            self._core, any_node if node is None else node, any_node if destination is None else destination, weight
        )

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Slots of a destination that waits no more are revoked if they have not begun; one that runs may be used up."""
        waiting = array("I", (destination for destination, size in backlog.items() if size > 0))
        urgent = array("q", (min(MOST, deadline.get(destination, 0)) for destination in waiting)) if deadline else None
        offsets = array("I", (0, len(waiting)))
        self._backlogs(now_ns, 1, array("I", (node,)), offsets, waiting, urgent)

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """The rest of the slot is free from now on, and belongs to the pair's turn."""
        told = (slot, node, destination, unspent_bytes, backlog_bytes)
        returned = array("q", (min(MOST, value) for value in told))
        self._c.core_yields(self._core, now_ns, 1, _at(returned))
        self._place()

    def set_delay(self, node: int, delay_ns: int) -> None:
        """Slots of the node begin no sooner than a directive reaches it."""
        self._delays[node] = delay_ns
        self._c.core_delay(self._core, node, delay_ns)

    def delay_ns(self, node: int) -> int | None:
        """What `set_delay` said of the node; None: nothing yet."""
        return self._delays.get(node)

    def left(self, node: int, *, now_ns: int) -> None:
        """Slots towards the node are revoked, and its own: their links are free from now on."""
        self._delays.pop(node, None)
        self._c.core_left(self._core, now_ns, node)

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants from now on, and what follows every end until the horizon."""
        grants, revokes = self._plan(now_ns, horizon_ns)
        return Plan(_slots(grants), _slots(revokes))

    def next_event_ns(self) -> int | None:
        """The first end of a slot that is not foreseen yet."""
        event_ns = self._c.core_next_event(self._core)
        return None if event_ns < 0 else int(event_ns)

    # -- in batches ---------------------------------------------------------------------------------------------------

    def backlogs(self, nodes: Words, offsets: Words, destinations: Words, *, now_ns: int) -> None:
        """Takes the backlogs of several nodes, in full, one after the other: the bytes of nodes[i] wait for
        destinations[offsets[i] : offsets[i + 1]]."""
        given = [np.ascontiguousarray(one, np.uint32) for one in (nodes, offsets, destinations)]
        self._backlogs(now_ns, len(nodes), given[0], given[1], given[2], None)

    def give_back(self, returned: NDArray[np.void], *, now_ns: int) -> None:
        """Takes slots back, one after the other (dtype RETURNED)."""
        if returned.dtype != RETURNED or not returned.flags.c_contiguous:
            raise ValueError("slots that are given back are a contiguous array of RETURNED")
        self._c.core_yields(self._core, now_ns, len(returned), returned.ctypes.data)
        self._place()

    def plan_arrays(self, *, now_ns: int, horizon_ns: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """(granted, revoked) as arrays of SLOT."""
        grants, revokes = self._plan(now_ns, horizon_ns)
        return np.frombuffer(grants, SLOT), np.frombuffer(revokes, SLOT)

    # -- the library --------------------------------------------------------------------------------------------------

    def _plan(self, now_ns: int, horizon_ns: int) -> tuple[bytes, bytes]:
        counts, core = self._counts, self._core
        counts.last_number = self.numbers.last
        self._c.core_plan(core, now_ns, horizon_ns, ctypes.byref(counts))
        self.numbers.last = counts.last_number
        grants = ctypes.string_at(self._c.core_grants(core), counts.grants * _SLOT.size) if counts.grants else b""
        revokes = ctypes.string_at(self._c.core_revokes(core), counts.revokes * _SLOT.size) if counts.revokes else b""
        return grants, revokes

    def _backlogs(
        self, now_ns: int, count: int, nodes: Array, offsets: Array, destinations: Array, deadlines: Array | None
    ) -> None:
        urgent = None if deadlines is None else _at(deadlines)
        self._c.core_backlogs(self._core, now_ns, count, _at(nodes), _at(offsets), _at(destinations), urgent)
        self._place()

    def _place(self) -> None:
        """Gives the pairs that have none a place in the network."""
        network, core, links = self._network, self._core, self._links
        while self._c.core_unplaced(core):
            pair = self._c.core_take_unplaced(core, ctypes.byref(self._node), ctypes.byref(self._destination))
            assert network is not None, "only in a network a pair can be without place"
            try:
                rate_bps = min(MOST_BPS, network.node_rate_bps(self._node.value))
            except KeyError:
                continue
            path = array("I")
            for name in network.path(self._node.value, self._destination.value):
                if (link := links.get(name)) is None:
                    link = links[name] = self._c.core_link(core, min(MOST_BPS, network.capacity_bps(name)))
                path.append(link)
            self._c.core_place(core, pair, rate_bps, len(path), _at(path))


class Array(Protocol):
    """An array of the standard library, or of numpy."""

    def __len__(self) -> int: ...


def _at(values: Array) -> int:
    """The address of an array's first element. The caller keeps the array."""
    return values.buffer_info()[0] if isinstance(values, array) else int(values.ctypes.data)  # type: ignore[attr-defined]


def _slots(packed: bytes) -> list[Slot]:
    return [Slot(*fields) for fields in _SLOT.iter_unpack(packed)]
