"""Hosts for `baton bench scale`: what waits at each of them, what its slots carry, and what it says of that. Pure.

Hosts speak to the schedule at ticks: at each of them they say which queues are backlogged anew, and which slots they give back.
A slot sends at an even rate from its start on, and is given back at the first tick after its queue is empty. A slot without a
count of bytes is a rate: its pair sends at it until it ends, or until the next one of the pair begins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.computing.scale_network import Pairs
from controller.policies.compiled.batches import SLOT

MEAN_SLOTS = 10
"""Of a demand, which is geometrically distributed, in slots."""


class Said(NamedTuple):
    """What hosts say at one tick: who has a backlog for which destinations, in full; which of these pairs begin to wait; and
    which slots are given back."""

    nodes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """The destinations of nodes[i] are destinations[offsets[i] : offsets[i + 1]]."""
    destinations: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """The bytes that wait for each of them."""
    begun: Pairs
    begun_bytes: NDArray[np.int64]
    returned: NDArray[np.void]
    """The slots that are given back (dtype SLOT)."""
    unspent_bytes: NDArray[np.int64]
    backlog_bytes: NDArray[np.int64]


class Hosts:
    """All hosts. A saturated pair, one without demands of its own, always has bytes waiting.

    Args:
        hosts: how many there are.
        demand_bytes_per_s: what each pair wants on average; None: every pair is saturated.
        slot_bytes: of a whole slot: demands are `MEAN_SLOTS` of them on average.
        counted: they tell how many bytes wait: so a pair that waits says so again when more bytes come, and a slot that was
            used up is not given back.
    """

    def __init__(
        self, hosts: int, pairs: Pairs, demand_bytes_per_s: float | None, slot_bytes: int, seed: int, *, counted: bool = False
    ) -> None:
        self.pairs = pairs
        self.waiting_bytes = np.zeros(len(pairs), dtype=np.int64)
        self.came_bytes = np.zeros(len(pairs), dtype=np.int64)
        """Since the last `forget`."""
        self.sent_bytes = 0
        self._hosts = hosts
        self._keys = pairs.nodes * hosts + pairs.destinations
        self._first = np.searchsorted(pairs.nodes, np.arange(hosts + 1))
        self._demand = demand_bytes_per_s
        self._slot_bytes = slot_bytes
        self._dice = np.random.default_rng(seed)
        self._slots = np.zeros(0, dtype=SLOT)
        """Those of bytes."""
        self._rates = np.zeros(0, dtype=SLOT)
        """The newest rate of each pair, and those that have not begun."""
        self.rated_bytes = 0
        """Those of `sent_bytes` that rates carried."""
        self._credit = np.zeros(len(pairs))
        """By pair: the part of a byte that its rate has allowed since the last whole one."""
        self._counted = counted
        self._unsaid: list[NDArray[np.int64]] = []
        self._unreturned: list[tuple[NDArray[np.void], NDArray[np.int64]]] = []
        self._silent = np.zeros(hosts, dtype=bool)
        """Saturated hosts that did not speak yet."""
        self._silent[pairs.nodes] = demand_bytes_per_s is None

    def forget(self) -> None:
        """Begins to count what came and what was sent anew."""
        self.came_bytes[:] = 0
        self.sent_bytes = self.rated_bytes = 0

    # -- what they say ----------------------------------------------------------------------------------------------------

    def say(self, tick_ns: int, now_ns: int, *, joining: float = 1.0) -> Said:
        """What they say at `now_ns`, a tick after the time before. `joining`: the part of the silent hosts that begin."""
        self.wait(tick_ns, now_ns, joining=joining)
        changed = np.unique(np.concatenate(self._unsaid))
        returned, unspent = (np.concatenate(each) for each in zip(*self._unreturned, strict=True))
        self._unsaid, self._unreturned = [], []
        if self._counted:
            keep = unspent > 0
            returned, unspent = returned[keep], unspent[keep]
        nodes = np.unique(self.pairs.nodes[changed])
        counts = self._first[nodes + 1] - self._first[nodes]
        owner = np.repeat(np.arange(len(nodes)), counts)
        inside = np.arange(len(owner)) + (self._first[nodes] - (np.cumsum(counts) - counts))[owner]
        keep = self.waiting_bytes[inside] > 0
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owner[keep], minlength=len(nodes)))))
        backlog = self.waiting_bytes[self._pair_of(returned)]
        begun = Pairs(self.pairs.nodes[changed], self.pairs.destinations[changed])
        return Said(
            nodes, offsets, self.pairs.destinations[inside[keep]], self.waiting_bytes[inside[keep]], begun,
            self.waiting_bytes[changed], returned, unspent, backlog,
        )  # fmt: skip

    def wait(self, tick_ns: int, now_ns: int, *, joining: float = 1.0) -> None:
        """A tick passes, at which they say nothing; they will at the next `say`."""
        self._unsaid.append(self._join(joining) if self._demand is None else self._demands(tick_ns))
        self._unreturned += [self._settle(now_ns), self._pass(tick_ns, now_ns)]

    def _join(self, part: float) -> NDArray[np.int64]:
        """The pairs that begin to wait."""
        silent = np.nonzero(self._silent)[0]
        nodes: NDArray[np.int64] = silent if part >= 1 else silent[self._dice.random(len(silent)) < part]
        self._silent[nodes] = False
        changed: NDArray[np.int64] = np.nonzero(np.isin(self.pairs.nodes, nodes))[0]
        self.waiting_bytes[changed] = 1 << 50
        return changed

    def _demands(self, tick_ns: int) -> NDArray[np.int64]:
        assert self._demand is not None
        mean = len(self.pairs) * self._demand * tick_ns / 1e9 / (MEAN_SLOTS * self._slot_bytes)
        chosen = self._dice.integers(len(self.pairs), size=self._dice.poisson(mean))
        sizes = self._dice.geometric(1 / MEAN_SLOTS, len(chosen)) * self._slot_bytes
        new: NDArray[np.int64] = np.unique(chosen if self._counted else chosen[self.waiting_bytes[chosen] == 0])
        np.add.at(self.waiting_bytes, chosen, sizes)
        np.add.at(self.came_bytes, chosen, sizes)
        return new

    def _settle(self, now_ns: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Takes the slots that are over or have nothing more to send; returns the latter, with the bytes that they leave."""
        slots = self._slots
        pair = self._pair_of(slots)
        waiting = self.waiting_bytes[pair]
        length = slots["end"] - slots["start"]
        used = np.minimum(waiting, slots["bytes"])
        over = slots["start"] + length * used // np.maximum(1, slots["bytes"]) <= now_ns
        over &= slots["start"] < now_ns
        # Two slots of a pair that are over in one tick: the second waits for the next one, and sees what the first has left.
        order = np.nonzero(over)[0]
        _, firsts = np.unique(pair[order], return_index=True)
        take = order[firsts]
        self._slots = np.delete(slots, take)
        self.sent_bytes += int(used[take].sum())
        if self._demand is None:
            return slots[:0], np.zeros(0, dtype=np.int64)
        self.waiting_bytes[pair[take]] -= used[take]
        idle = take[self.waiting_bytes[pair[take]] == 0]
        return slots[idle], slots["bytes"][idle] - used[idle]

    def _pass(self, tick_ns: int, now_ns: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Has rates carry what they can in the tick until now; returns those whose queue is empty."""
        rates = self._rates
        pair = self._pair_of(rates)
        begins, ends = np.maximum(rates["start"], now_ns - tick_ns), np.minimum(rates["end"], now_ns)
        order = np.lexsort((rates["slot"], pair))
        same = np.nonzero(pair[order][1:] == pair[order][:-1])[0]
        before, after = order[same], order[same + 1]
        ends[before] = np.minimum(ends[before], rates["start"][after])
        np.add.at(self._credit, pair, rates["rate"] * np.maximum(0, ends - begins) / 8e9)
        pairs = np.unique(pair)
        used = np.minimum(self.waiting_bytes[pairs], self._credit[pairs].astype(np.int64))
        self._credit[pairs] = np.where(used < self.waiting_bytes[pairs], self._credit[pairs] - used, 0)
        self.sent_bytes += int(used.sum())
        self.rated_bytes += int(used.sum())
        over = rates["end"] <= now_ns
        over[before] |= rates["start"][after] <= now_ns
        idle = np.zeros(len(rates), dtype=bool)
        if self._demand is not None:
            self.waiting_bytes[pairs] -= used
            idle = (self.waiting_bytes[pair] == 0) & (rates["start"] < now_ns) & ~over
        self._rates = rates[~(over | idle)]
        return rates[idle], np.zeros(int(idle.sum()), dtype=np.int64)

    def _pair_of(self, slots: NDArray[np.void]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.searchsorted(self._keys, slots["node"] * self._hosts + slots["destination"])
        return found

    # -- what they hear ---------------------------------------------------------------------------------------------------

    def hear(self, grants: NDArray[np.void], revokes: NDArray[np.void]) -> None:
        """Takes what was planned. A slot that is granted again takes the place of the one before."""
        slots = np.concatenate((grants, self._slots, self._rates))
        slots = slots[np.unique(slots["slot"], return_index=True)[1]]
        slots = slots[~np.isin(slots["slot"], revokes["slot"])]
        self._slots, self._rates = slots[slots["bytes"] > 0], slots[slots["bytes"] == 0]
