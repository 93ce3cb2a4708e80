"""The policy `auto` over the compiled turns and rates: the same plans as `controller.policies.auto`, which is the reference.

A thin shell: what happens for each slot and backlog happens in C, in three cores (turns, rates, and what `auto` itself keeps of
pairs and links). Python is asked four times a second, and when a pair begins to send, once for each group of links: what it
chooses (`controller.policies.choice`).
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from controller.policies.auto import LEAST_SLOTS, REVIEW_NS
from controller.policies.base import Network, Plan, Regulated, Slot, SlotNumbers
from controller.policies.choice import TURNS, Choice, Measured, summary
from controller.policies.compiled import library as compiled
from controller.policies.compiled.batches import (
    SLOT_BYTES,
    Batched,
    Core,
    Lend,
    address_of,
    as_arrays,
    core_of,
    still_waiting,
)
from controller.policies.compiled.library import Array, at
from controller.policies.compiled.met import Met
from controller.policies.compiled.places import Places
from controller.policies.compiled.rate_limit import CompiledRateLimit, Sent
from controller.policies.compiled.timeslice import CompiledTimeslice


class CompiledAuto(Batched):
    """Gives each pair to turns or to rates. A `BatchPolicy`."""

    def __init__(
        self, turns: CompiledTimeslice, rates: CompiledRateLimit, *, library: ctypes.CDLL | None = None
    ) -> None:
        """Raises BuildError, OSError: there is no library here.

        Args:
            library: a build of the library other than this machine's own.
        """
        self._turns, self._rates = turns, rates
        turns.numbers = rates.numbers = SlotNumbers()
        self._c = library or compiled.CHOICES.loaded()
        self._core = self._c.choices_new()
        self._places = Places(self._c, "choices", self._core)
        self._met = Met()
        self._untold: Regulated | None = None
        """The regulated ones of the pairs that were met, as long as the core does not know them."""
        self._contended: list[Hashable] = []
        """In the order in which they became it."""
        self._choices: dict[int, Choice] = {}
        """By number, which are all from 0 on."""
        self._free: list[int] = []
        """Those that no link has, as far as that was looked for."""
        self._next_review_ns: int | None = None
        self._sending = ctypes.c_uint32()

    def __del__(self) -> None:
        if (core := getattr(self, "_core", None)) is not None:
            self._c.choices_free(core)

    # -- events -------------------------------------------------------------------------------------------------------

    def set_network(self, network: Network, *, now_ns: int) -> None:
        if self._places.recharged(network) is not None:  # no choice depends on what links carry
            with self.lock:
                self._c.choices_recharge(self._core, self._latest_ns(now_ns))
        else:
            found = self._places.find(network, self._places.links)
            with self.lock:
                self._c.choices_rewire(self._core, self._latest_ns(now_ns))
            self._places.put_in_pieces(found)
        self._places.begin(network)
        for policy in self.parts():
            policy.set_network(network, now_ns=now_ns)

    def set_contended(self, links: frozenset[Hashable]) -> None:
        """Forgets the choices for links that are not contended any more."""
        kept = [link for link in self._contended if link in links]
        self._contended = kept + list(links.difference(kept))
        numbers = array("I", map(self._places.number, self._contended))
        with self.lock:
            self._c.choices_contend(self._core, len(numbers), at(numbers))

    def set_regulated(self, pairs: Regulated, *, now_ns: int) -> None:
        self._untold = None
        self._tell(self._met.regulated(pairs), now_ns)

    def _tell(self, pairs: Regulated | None, now_ns: int) -> None:
        if pairs is None:
            return
        nodes, offsets, destinations = as_arrays(pairs)
        with self.lock:
            now_ns = self._latest_ns(now_ns)
            self._c.choices_regulate(self._core, now_ns, len(nodes), at(nodes), at(offsets), at(destinations))
        self._review(now_ns)

    def set_weight(self, node: int | None, destination: int | None, weight: float) -> None:
        for policy in self.parts():
            policy.set_weight(node, destination, weight)

    def take_backlogs(
        self, now_ns: int, count: int, nodes: Array, offsets: Array, destinations: Array, deadlines: Array | None
    ) -> None:
        self._tell(self._met.backlogs(nodes.tolist(), offsets.tolist(), destinations.tolist()), now_ns)
        with self.lock:
            then_ns = self._latest_ns(now_ns)
            self._c.choices_backlogs(self._core, then_ns, count, at(nodes), at(offsets), at(destinations), None)
        self._places.fill()
        for policy in self.parts():
            policy.take_backlogs(now_ns, count, nodes, offsets, destinations, deadlines)

    def take_yields(self, now_ns: int, count: int, returned: Array) -> None:
        nodes, offsets, destinations = still_waiting(returned)
        self._tell(self._met.backlogs(nodes.tolist(), offsets.tolist(), destinations.tolist()), now_ns)
        with self.lock:
            self._c.choices_yields(self._core, self._latest_ns(now_ns), count, at(returned))
        self._places.fill()
        for policy in self.parts():
            policy.take_yields(now_ns, count, returned)

    def sent(self, node: int, rates_bps: Mapping[int, int], *, now_ns: int) -> None:
        told = Sent.of(rates_bps)
        self._met.sent(node, rates_bps)
        with self.lock:
            then_ns = self._latest_ns(now_ns)
            self._c.choices_sent(self._core, then_ns, node, *told.columns())
            self._rates.take_sent(node, told, then_ns)

    def set_delay(self, node: int, delay_ns: int) -> None:
        with self.lock:
            self._c.choices_delay(self._core, node, delay_ns)
        for policy in self.parts():
            policy.set_delay(node, delay_ns)

    def left(self, node: int, *, now_ns: int) -> None:
        self._met.left(node)
        with self.lock:
            self._c.choices_left(self._core, self._latest_ns(now_ns), node)
        for policy in self.parts():
            policy.left(node, now_ns=now_ns)

    def parts(self) -> tuple[CompiledTimeslice, CompiledRateLimit]:
        """Turns and rates."""
        return self._turns, self._rates

    def cores(self) -> tuple[tuple[Core, ...], Core | None]:
        """Turns, then rates, and what `auto` keeps itself."""
        planners = tuple(core for policy in self.parts() for core in policy.cores()[0])
        own = core_of(self._c, "choices", self._core, "dirty")
        return planners, own._replace(counts=address_of(self._c.choices_count))

    def last_number(self) -> int:
        """The number of the last slot that was granted here."""
        return self._turns.last_number()

    def share(
        self, lock: AbstractContextManager[None], latest_ns: Callable[[int], int], lend: Lend | None = None
    ) -> None:
        """As in `Batched`."""
        super().share(lock, latest_ns, lend)
        self._places.share(lock)
        self._c.choices_lend(self._core, *(lend or (None, None)))
        for policy in self.parts():
            policy.share(lock, latest_ns, lend)

    def meet(self, nodes: Array, offsets: Array, destinations: Array) -> None:
        """As in `Batched`."""
        if (pairs := self._met.backlogs(nodes.tolist(), offsets.tolist(), destinations.tolist())) is not None:
            self._untold = pairs

    def attend(self, *, now_ns: int) -> int | None:
        """Gives pairs their places, and chooses if a review is due; returns when the next one is."""
        pairs, self._untold = self._untold, None
        self._tell(pairs, now_ns)
        self._places.fill()
        for policy in self.parts():
            policy.attend(now_ns=now_ns)
        self._review_if_due(now_ns)
        return self._next_review_ns

    # -- planning -----------------------------------------------------------------------------------------------------

    def packed_plan(self, now_ns: int, horizon_ns: int) -> tuple[bytes, bytes]:
        """What both plan, after a review that is due."""
        self._review_if_due(now_ns)
        turns, ended_turns = self._turns.packed_plan(now_ns, horizon_ns)
        rates, ended_rates = self._rates.packed_plan(now_ns, horizon_ns)
        self._c.choices_count(self._core, len(turns) // SLOT_BYTES, turns)
        return turns + rates, ended_turns + ended_rates

    def retire(self, *, now_ns: int) -> Plan:
        plans = [policy.retire(now_ns=now_ns) for policy in self.parts()]
        return Plan(revokes=[slot for plan in plans for slot in plan.revokes])

    def next_event_ns(self) -> int | None:
        """The next review, or what comes next of turns and rates."""
        events = [self._next_review_ns, *(policy.next_event_ns() for policy in self.parts())]
        return min((event for event in events if event is not None), default=None)

    def late_matters(self, slot: Slot) -> bool:
        """Of turns, yes."""
        return slot.bytes > 0

    def choices(self) -> list[dict[str, Any]]:
        """What it chose for contended links, and why."""
        found = zip(self._contended, map(self._choices.get, self._chosen_for(self._contended)), strict=True)
        return summary((link, choice) for link, choice in found if choice is not None)

    # -- choosing -----------------------------------------------------------------------------------------------------

    def _chosen_for(self, links: Sequence[Hashable]) -> array[int]:
        """The numbers of the choices for these links; `ANY`: none."""
        numbers = array("I", map(self._places.links.__getitem__, links))
        chosen = array("I", bytes(numbers.itemsize * len(numbers)))
        with self.lock:
            self._c.choices_of_links(self._core, len(numbers), at(numbers), at(chosen))
        return chosen

    def _review_if_due(self, now_ns: int) -> None:
        with self.lock:
            dirty = self._c.choices_dirty(self._core)
        if dirty or (self._next_review_ns is not None and now_ns >= self._next_review_ns):
            self._review(now_ns)

    def _review(self, now_ns: int) -> None:
        """Chooses for every group of links, and hands pairs over where a choice or the regulated pairs changed.

        Others may have the lock while groups are found, and between two. What they tell has the next review.
        """
        c, core = self._c, self._core
        with self.lock:
            now_ns = self._latest_ns(now_ns)
            changed = bool(c.choices_dirty(core))
            count = c.choices_review(core, now_ns, ctypes.byref(self._sending))
        self._next_review_ns = now_ns + REVIEW_NS if self._sending.value else None
        if count:
            changed |= self._choose(count, now_ns)
        if changed:
            with self.lock:
                self._c.choices_deal(self._core)  # which lends the lock
            with self.lock:
                self._hand_over(self._latest_ns(now_ns))
            for policy in self.parts():
                policy.attend(now_ns=now_ns)

    def _choose(self, count: int, now_ns: int) -> bool:
        """Chooses for the groups that were found, in their order; returns whether a link has another mode now.

        Choices are read and put in force together. Only where a mode changes what follows is read again: groups that were one
        have the same choice.
        """
        c, core, slice_ns = self._c, self._core, self._turns.terms.slice_ns
        groups = _groups(c.choices_groups(core), count)
        chosen, changed, begun = array("I", bytes(4 * count)), False, 0
        self._find_free()
        with self.lock:
            c.choices_chosen(core, 0, at(chosen))
        for number, group in enumerate(groups):
            if chosen[number] == compiled.ANY:
                chosen[number] = self._new_choice()
            choice = self._choices[chosen[number]]
            if not choice.update(_measured(*group), slice_ns, now_ns):
                continue
            with self.lock:
                c.choices_assign(core, begun, number, at(chosen), False)
                c.choices_mode(core, chosen[number], choice.mode == TURNS)
                c.choices_assign(core, number, number + 1, at(chosen), True)
                c.choices_chosen(core, number + 1, at(chosen))
            changed, begun = True, number + 1
        with self.lock:
            return bool(c.choices_assign(core, begun, count, at(chosen), False)) or changed

    def _find_free(self) -> None:
        """Finds the numbers of choices that no link has any more, where there are many choices."""
        if not self._free and len(self._choices) > 2 * len(self._places.links) + 1:
            live = set(self._chosen_for(list(self._places.links)))
            self._free = [number for number in self._choices if number not in live]

    def _new_choice(self) -> int:
        """The number of a new choice, which is for rates: one that no link has any more, or the next one."""
        number = self._free.pop() if self._free else len(self._choices)
        self._choices[number] = Choice()
        with self.lock:
            self._c.choices_mode(self._core, number, False)
        return number

    def _hand_over(self, now_ns: int) -> None:
        """Gives every pair that was dealt to the policy of its links."""
        for policy, turns in ((self._turns, True), (self._rates, False)):
            dealt = compiled.Dealt.from_address(self._c.choices_dealt(self._core, turns))
            policy.regulate(dealt.count, dealt.nodes, dealt.offsets, dealt.destinations, now_ns=now_ns)


def _groups(address: int, count: int) -> list[tuple[int, ...]]:
    """The groups that a review found."""
    found = (compiled.Group * count).from_address(address)
    groups: list[tuple[int, ...]] = np.ctypeslib.as_array(found).tolist()
    return groups


def _measured(
    _first: int, _count: int, senders: int, one_link: int, delay_ns: int, turns: int, granted: int, unspent: int
) -> Measured:
    used = 1 - unspent / granted if turns >= LEAST_SLOTS and granted else None
    return Measured(senders, 2 * delay_ns if delay_ns >= 0 else None, bool(one_link), used)
