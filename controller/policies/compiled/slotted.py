"""What compiled policies share that grant slots: delays of nodes, and networks in which slots are kept."""

from __future__ import annotations

import ctypes

from controller.policies.base import Network
from controller.policies.compiled.batches import Compiled
from controller.policies.compiled.library import at


class Slotted(Compiled):
    """A core that grants slots.

    Args:
        library: has PREFIX_rewire, PREFIX_settle, PREFIX_delay and PREFIX_left, beside what `Compiled` needs.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, core: int) -> None:
        super().__init__(library, prefix, core)
        self._c_rewire, self._c_settle, self._c_delay, self._c_left = (
            getattr(library, f"{prefix}_{name}") for name in ("rewire", "settle", "delay", "left")
        )
        self._c_recharge = getattr(library, f"{prefix}_recharge", None)
        """Takes other capacities alone, in the cores that can."""
        self._delays: dict[int, int] = {}

    def set_network(self, network: Network, *, now_ns: int) -> None:
        """Keeps a slot, as it is, where its new path has room for it; revokes the others. Where links carry more or less and
        nothing else is different, only what crosses these is looked at, in the cores that can."""
        recharged = None if self._c_recharge is None else self._places.recharged(network)
        if recharged is None or self._c_recharge is None:
            self._rewire(network, now_ns)
            return
        links, capacities = recharged
        with self.lock:
            self._c_recharge(self._core, self._latest_ns(now_ns), len(links), at(links), at(capacities))
        self._after_recharge()
        self._places.begin(network)

    def _after_recharge(self) -> None:
        """Does what follows when a core has got other capacities."""
        return

    def _rewire(self, network: Network, now_ns: int) -> None:
        found = self._places.find(network)
        with self.lock:
            self._c_rewire(self._core, self._latest_ns(now_ns))
        first = self._places.put_in_pieces(found)
        with self.lock:
            self._c_settle(self._core)
        self._places.begin(network, found, first)

    def set_delay(self, node: int, delay_ns: int) -> None:
        """Slots of the node begin no sooner than a directive reaches it."""
        self._delays[node] = delay_ns
        with self.lock:
            self._c_delay(self._core, node, delay_ns)

    def delay_ns(self, node: int) -> int | None:
        """What `set_delay` said of the node; None: nothing yet."""
        return self._delays.get(node)

    def left(self, node: int, *, now_ns: int) -> None:
        """Slots towards the node are revoked, and its own: their links are free from now on."""
        if self._met is not None:
            self._met.left(node)
        self._delays.pop(node, None)
        with self.lock:
            self._c_left(self._core, self._latest_ns(now_ns), node)
