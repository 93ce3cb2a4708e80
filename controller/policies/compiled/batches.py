"""What compiled policies share: events in batches, and plans as arrays."""

from __future__ import annotations

import ctypes
import struct
from abc import abstractmethod
from array import array
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from controller.policies.base import NOTHING, Plan, Policy, Regulated, Slot, SlotNumbers, Weights
from controller.policies.compiled.library import ANY, Array, Counts, at
from controller.policies.compiled.met import Met
from controller.policies.compiled.places import Places

SLOT = np.dtype([(name, np.int64) for name in ("slot", "node", "destination", "start", "end", "bytes", "rate", "reserved")])
"""A slot as an array has it: the fields of `Slot`."""
RETURNED = np.dtype([(name, np.int64) for name in ("slot", "node", "destination", "unspent", "backlog")])
"""A slot that is given back: the bytes of its credit that were not used, and those that wait for the destination now."""
MOST = 1 << 62
"""What is larger counts as this much: numbers and bytes that come from hosts."""
_SLOT = struct.Struct("8q")
SLOT_BYTES = _SLOT.size
NO_SLOTS = np.zeros(0, SLOT)


@runtime_checkable
class BatchPolicy(Protocol):
    """A policy that takes events, and gives plans, as arrays: no object and no Python for each slot."""

    def backlogs(
        self, nodes: NDArray[Any], offsets: NDArray[Any], destinations: NDArray[Any], *, now_ns: int,
        sizes: NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        """Takes the backlogs of several nodes, in full, one after the other: bytes of nodes[i] wait for
        destinations[offsets[i] : offsets[i + 1]], and none of them has a deadline. `sizes` says how many bytes wait for each of
        the destinations, for policies that count them; None: not known."""

    def begin(
        self, nodes: NDArray[Any], destinations: NDArray[Any], *, now_ns: int, sizes: NDArray[Any] | None = None
    ) -> None:
        """Takes pairs that begin to wait, or have more bytes, one after the other: sizes[i] bytes of nodes[i] wait for
        destinations[i], without a deadline; None: not known. What else waits at a node is as before."""

    def give_back(self, returned: NDArray[Any], *, now_ns: int) -> None:
        """Takes slots back, one after the other (a contiguous array of dtype RETURNED). Raises ValueError: it is of another."""

    def plan_arrays(self, *, now_ns: int, horizon_ns: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """(granted, revoked) as arrays of dtype SLOT: what `plan` says, in the same order. They hold until the next plan."""


class Core(NamedTuple):
    """A core, and the addresses of its functions, for who calls it from C (controller/frames/loop.h); 0: it has none."""

    core: int
    backlogs: int
    yields: int
    unplaced: int
    plan: int = 0
    grants: int = 0
    revokes: int = 0
    next_event: int = 0
    counts: int = 0
    dirty: int = 0


def address_of(function: object) -> int:
    """Where a function of a library is."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def core_of(library: ctypes.CDLL, prefix: str, core: int, *more: str) -> Core:
    """A core with those of its functions that every core has, and `more`."""
    names = ("backlogs", "yields", "unplaced", *more)
    return Core(core, **{name: address_of(getattr(library, f"{prefix}_{name}")) for name in names})


class Lend(NamedTuple):
    """How C lets others have a lock that it holds: a function, and what it is called with."""

    function: int
    lock: int


class Batched(Policy):
    """A policy that takes its events as batches, and gives its plans packed; a single event is a batch of one.

    Another thread may call its cores, too, for backlogs, yields and plans (`share`). Then it is told here which pairs these
    were of (`meet`), and asked for what cores cannot do (`attend`).
    """

    lock: AbstractContextManager[None] = nullcontext()
    """Held for each call of a core, or for several that belong together."""

    def share(
        self, lock: AbstractContextManager[None], latest_ns: Callable[[int], int], lend: Lend | None = None
    ) -> None:
        """From now on another thread calls the cores, too, and holds this lock meanwhile. `latest_ns` says of a time and the
        latest one that the cores know, the later one; it is called with the lock held. By `lend` a core lets others have it
        amid a call that takes long; None: it does not."""
        self.lock = lock
        self._latest_ns = latest_ns

    _latest_ns: Callable[[int], int] = staticmethod(lambda now_ns: now_ns)

    @abstractmethod
    def cores(self) -> tuple[tuple[Core, ...], Core | None]:
        """Those that plan, in their order, and the one that chooses between them."""

    @abstractmethod
    def last_number(self) -> int:
        """The number of the last slot that was granted here."""

    @abstractmethod
    def meet(self, nodes: Array, offsets: Array, destinations: Array) -> None:
        """Learns of pairs whose backlogs the cores have; `attend` follows, after any number of calls."""

    @abstractmethod
    def attend(self, *, now_ns: int) -> int | None:
        """Does what cores cannot do; returns when it wants to be asked again of itself (ns), None: never."""

    counted = False
    """Whether it asks how many bytes wait."""

    @abstractmethod
    def take_backlogs(
        self, now_ns: int, count: int, nodes: Array, offsets: Array, destinations: Array, deadlines: Array | None
    ) -> None:
        """Takes the backlogs of several nodes, in full, with the bytes of each that are of flows with a deadline."""

    def take_sizes(self, now_ns: int, count: int, nodes: Array, offsets: Array, destinations: Array, sizes: Array) -> None:
        """The same with all bytes of each; a policy that is `counted` has another one."""
        self.take_backlogs(now_ns, count, nodes, offsets, destinations, None)

    @abstractmethod
    def take_yields(self, now_ns: int, count: int, returned: Array) -> None:
        """Takes slots back (as of dtype RETURNED)."""

    @abstractmethod
    def packed_plan(self, now_ns: int, horizon_ns: int) -> tuple[bytes, bytes]:
        """(granted, revoked), as of dtype SLOT."""

    def backlog(
        self, node: int, backlog: Mapping[int, int], *, now_ns: int, deadline: Mapping[int, int] = NOTHING
    ) -> None:
        """Slots of a destination that waits no more are revoked if they have not begun; one that runs may be used up."""
        waiting = array("I", (destination for destination, size in backlog.items() if size > 0))
        urgent = array("q", (min(MOST, deadline.get(destination, 0)) for destination in waiting)) if deadline else None
        told = now_ns, 1, array("I", (node,)), array("I", (0, len(waiting))), waiting
        if self.counted:
            self.take_sizes(*told, array("q", (min(MOST, backlog[destination]) for destination in waiting)))
        else:
            self.take_backlogs(*told, urgent)

    def yielded(
        self, node: int, destination: int, slot: int, *, now_ns: int, backlog_bytes: int = 0, unspent_bytes: int = 0
    ) -> None:
        """The rest of the slot is free from now on."""
        told = (slot, node, destination, unspent_bytes, backlog_bytes)
        self.take_yields(now_ns, 1, array("q", (min(MOST, value) for value in told)))

    def backlogs(
        self, nodes: NDArray[Any], offsets: NDArray[Any], destinations: NDArray[Any], *, now_ns: int,
        sizes: NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        """As in `BatchPolicy`."""
        given = [np.ascontiguousarray(one, np.uint32) for one in (nodes, offsets, destinations)]
        if sizes is None:
            self.take_backlogs(now_ns, len(nodes), given[0], given[1], given[2], None)
        else:
            self.take_sizes(now_ns, len(nodes), given[0], given[1], given[2], np.ascontiguousarray(sizes, np.int64))

    def begin(
        self, nodes: NDArray[Any], destinations: NDArray[Any], *, now_ns: int, sizes: NDArray[Any] | None = None
    ) -> None:
        """As in `BatchPolicy`: slots that nobody has are given back, because more waits."""
        told = np.zeros(len(nodes), RETURNED)
        told["node"], told["destination"], told["backlog"] = nodes, destinations, MOST if sizes is None else sizes
        self.take_yields(now_ns, len(told), told)

    def give_back(self, returned: NDArray[Any], *, now_ns: int) -> None:
        """As in `BatchPolicy`."""
        if returned.dtype != RETURNED or not returned.flags.c_contiguous:
            raise ValueError("slots that are given back are a contiguous array of RETURNED")
        self.take_yields(now_ns, len(returned), returned)

    def plan(self, *, now_ns: int, horizon_ns: int) -> Plan:
        """Grants from now on, and what follows every end until the horizon."""
        grants, revokes = self.packed_plan(now_ns, horizon_ns)
        return Plan(slots(grants), slots(revokes))

    def plan_arrays(self, *, now_ns: int, horizon_ns: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """As in `BatchPolicy`."""
        grants, revokes = self.packed_plan(now_ns, horizon_ns)
        return np.frombuffer(grants, SLOT), np.frombuffer(revokes, SLOT)


class Compiled(Batched):
    """A policy that is one core.

    Args:
        library: one of `controller.policies.compiled.library`, whose functions begin with `prefix`.
        core: what PREFIX_new returned.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, core: int) -> None:
        self._c, self._core, self._prefix = library, core, prefix
        self._free = getattr(library, f"{prefix}_free")
        names = ("regulate", "backlogs", "yields", "weight", "plan", "grants", "revokes", "next_event")
        (
            self._c_regulate, self._c_backlogs, self._c_yields, self._c_weight, self._c_plan, self._c_grants, self._c_revokes,
            self._c_next_event,
        ) = (getattr(library, f"{prefix}_{name}") for name in names)  # fmt: skip
        self._places = Places(library, prefix, core)
        self.numbers = SlotNumbers()
        self._counts = Counts()
        self._met: Met | None = Met()
        """None: whoever tells of regulated pairs by address tells of those alone that matter."""
        self._untold: Regulated | None = None
        """The regulated ones of the pairs that were met, as long as the core does not know them."""

    def __del__(self) -> None:
        if (core := getattr(self, "_core", None)) is not None:
            self._free(core)

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        """Revokes slots of pairs that are no longer regulated."""
        self._met = self._met or Met()
        self._untold = None
        self._tell(self._met.regulated(pairs), now_ns)

    def _tell(self, pairs: Regulated, now_ns: int) -> None:
        nodes, offsets, destinations = as_arrays(pairs)
        with self.lock:
            self._c_regulate(self._core, self._latest_ns(now_ns), len(nodes), at(nodes), at(offsets), at(destinations))
        self._places.fill()

    def regulate(self, count: int, nodes: int, offsets: int, destinations: int, *, now_ns: int) -> None:
        """The same with addresses of arrays: those of nodes[i] are destinations[offsets[i] : offsets[i + 1]], sorted. Without
        places for new pairs: that takes long, so the caller calls `attend` when it has the lock no more."""
        self._met = None
        with self.lock:
            self._c_regulate(self._core, self._latest_ns(now_ns), count, nodes, offsets, destinations)

    def cores(self) -> tuple[tuple[Core, ...], Core | None]:
        """One core."""
        return (core_of(self._c, self._prefix, self._core, "plan", "grants", "revokes", "next_event"),), None

    def last_number(self) -> int:
        """The number of the last slot that was granted here."""
        return self.numbers.last

    def share(
        self, lock: AbstractContextManager[None], latest_ns: Callable[[int], int], lend: Lend | None = None
    ) -> None:
        """As in `Batched`."""
        super().share(lock, latest_ns, lend)
        self._places.share(lock)

    def meet(self, nodes: Array, offsets: Array, destinations: Array) -> None:
        """As in `Batched`."""
        met = self._met
        if met is not None and (pairs := met.backlogs(nodes.tolist(), offsets.tolist(), destinations.tolist())) is not None:
            self._untold = pairs

    def attend(self, *, now_ns: int) -> int | None:
        """Tells the core which of the pairs that were met are regulated, and gives pairs their places."""
        if (pairs := self._untold) is not None:
            self._untold = None
            self._tell(pairs, now_ns)
        else:
            self._places.fill()
        return None

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        """Gives a pair `weight` times the share of another from its next slot on."""
        Weights().set(node, destination, weight)  # raises if it is none
        with self.lock:
            self._c_weight(self._core, ANY if node is None else node, ANY if destination is None else destination, weight)

    def next_event_ns(self) -> int | None:
        """The first event that is known beforehand."""
        event_ns = self._c_next_event(self._core)
        return None if event_ns < 0 else int(event_ns)

    def take_backlogs(
        self, now_ns: int, count: int, nodes: Array, offsets: Array, destinations: Array, deadlines: Array | None
    ) -> None:
        if self._met is not None:
            self.meet(nodes, offsets, destinations)
            self.attend(now_ns=now_ns)
        urgent = None if deadlines is None else at(deadlines)
        with self.lock:
            now_ns = self._latest_ns(now_ns)
            self._c_backlogs(self._core, now_ns, count, at(nodes), at(offsets), at(destinations), urgent)
        self._places.fill()

    def take_yields(self, now_ns: int, count: int, returned: Array) -> None:
        if self._met is not None:
            self.meet(*still_waiting(returned))
            self.attend(now_ns=now_ns)
        with self.lock:
            self._c_yields(self._core, self._latest_ns(now_ns), count, at(returned))
        self._places.fill()

    def packed_plan(self, now_ns: int, horizon_ns: int) -> tuple[bytes, bytes]:
        counts = self._planned(now_ns, horizon_ns)
        grants = ctypes.string_at(self._c_grants(self._core), counts.grants * SLOT_BYTES) if counts.grants else b""
        revokes = ctypes.string_at(self._c_revokes(self._core), counts.revokes * SLOT_BYTES) if counts.revokes else b""
        return grants, revokes

    def plan_arrays(self, *, now_ns: int, horizon_ns: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """As in `BatchPolicy`, in the core's own memory: they keep the policy."""
        counts = self._planned(now_ns, horizon_ns)
        return self._array(self._c_grants, counts.grants), self._array(self._c_revokes, counts.revokes)

    def _planned(self, now_ns: int, horizon_ns: int) -> Counts:
        counts = self._counts
        counts.last_number = self.numbers.last
        self._c_plan(self._core, now_ns, horizon_ns, ctypes.byref(counts))
        self.numbers.last = counts.last_number
        return counts

    def _array(self, where: Callable[[int], int], count: int) -> NDArray[Any]:
        if not count:
            return NO_SLOTS
        kind = ctypes.c_char * (SLOT_BYTES << count.bit_length())  # a new kind takes 13 us, so they are few
        memory: Any = kind.from_address(where(self._core))
        memory.policy = self
        found: NDArray[Any] = np.frombuffer(memory, SLOT, count)
        return found


def still_waiting(returned: Array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The pairs of slots given back for which more waits, as backlogs of one destination each."""
    buffer: Any = returned  # an array of either kind is one
    rows = np.frombuffer(buffer, RETURNED)
    rows = rows[rows["backlog"] > 0]
    return rows["node"], np.arange(len(rows) + 1), rows["destination"]


def as_arrays(pairs: Regulated) -> tuple[array[int], array[int], array[int]]:
    """(nodes, offsets, destinations): those of nodes[i] are destinations[offsets[i] : offsets[i + 1]], sorted."""
    offsets = array("I", accumulate(map(len, pairs.values()), initial=0))
    return array("I", pairs), offsets, array("I", chain.from_iterable(map(sorted, pairs.values())))


def slots(packed: bytes) -> list[Slot]:
    """The slots of an array of SLOT."""
    return [Slot(*fields) for fields in _SLOT.iter_unpack(packed)]
