"""Which deadlines of coflows are kept: each is admitted or refused when its coflow is opened, and a refused one is looked at
again when others have ended. Pure.

Varys' rule (Chowdhury et al., SIGCOMM 2014): what is admitted reserves, at each port, the rate that ends it just in time, until
its deadline or its end; a coflow is refused where a port has no such rate left. Varys' fabric is one big switch, and its ports
are hosts' links; here the links between switches count as well, since those of a tree carry less than the hosts behind them can
send. A refused coflow goes without its deadline, so that it cannot make those late that were admitted. Whenever rates are given
back it has another chance, with what is left of it: often one other large coflow was in its way.

What the decision needs is in the documents of the coflows, so another leader comes to the same one, except for coflows that
have been closed since; so it goes by what the leader before decided, and reserves for all as if they had been admitted at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from controller.coflows import bottleneck_order
from controller.coflows.coflow import Coflow, Flow
from controller.coflows.links import FLOWS_AT_ONCE, Links, Port, named
from controller.coflows.reservations import Reservations

ADMITTED, REFUSED, UNCHECKED = "admitted", "refused", "unchecked"
USABLE = 0.85
"""Of a link's rate: headers take a twentieth, and MCP aims at 15/16 of the deadline."""
MOST_LATER = 0.5
"""Of that, for one that is admitted later. Who needs most of a link for the rest of its time is late as soon as anything is in
its way, and what it needs would be refused to others (docs/simulation-design.md, "What helps: admission")."""


class Verdict(NamedTuple):
    """Whether a deadline is kept, and why (or why not)."""

    deadline: str
    why: str


class Deadlines:
    """Decides about the deadlines of the open coflows: each when it is new, and about refused ones again."""

    def __init__(self, links: Links, usable: float = USABLE) -> None:
        """`usable`: the share of every link that admitted deadlines may need."""
        self._links = links
        self._usable = usable
        self._verdicts: dict[int, Verdict] = {}
        self._reserved: Reservations[Port] = Reservations()
        self._refused: dict[int, int] = {}
        """The refused ones, and their deadlines (ns)."""
        self._to_look: dict[int, None] = {}
        """The refused ones to look at again."""
        self._looked = 0
        """How often rates had been taken back at the last look."""
        self._later: dict[int, Coflow] = {}
        """Those admitted later, each as opened then, with what was left of it."""

    def update(self, coflows: Iterable[Coflow]) -> dict[int, Verdict]:
        """Takes the coflows that are open now, in the order in which they were opened; returns what was decided anew."""
        dated = {one.coflow: one for one in coflows if one.deadline_ns is not None}
        for number in self._verdicts.keys() - dated.keys():
            del self._verdicts[number]
            self._refused.pop(number, None)
            self._later.pop(number, None)
            self._reserved.remove(number)
        new = [number for number in dated if number not in self._verdicts]
        for number in new:
            one = dated[number]
            self._reserved.end(one.opened_ns)
            verdict = self._verdicts[number] = self._decide(one)
            if verdict.deadline == ADMITTED:
                self._reserve(one)
            elif verdict.deadline == REFUSED:
                assert one.deadline_ns is not None
                self._refused[number] = one.deadline_ns
        return {number: self._verdicts[number] for number in new}

    def renew(self, one: Coflow) -> None:
        """Reserves what a coflow needs on the ways that there are now, if it was admitted; what is decided stays."""
        known = self._verdicts.get(one.coflow)
        if known is not None and known.deadline == ADMITTED:
            self._reserved.remove(one.coflow)
            self._reserve(self._as_admitted(one))

    def look_again(self) -> None:
        """There may be room for refused coflows: `admit_later` looks at all of them, those due first before others."""
        self._to_look |= dict.fromkeys(sorted(self._refused, key=self._refused.__getitem__))

    def admit_later(
        self, coflows: Mapping[int, Coflow], left: Callable[[Coflow], Iterable[Flow]], now_ns: int
    ) -> dict[int, Verdict]:
        """Admits refused coflows that by now have the rate that they need; returns these. A call looks at some of those that
        wait for it. `left`: what a coflow has still to send."""
        self._reserved.end(now_ns)
        if self._reserved.taken_back != self._looked:
            self._looked = self._reserved.taken_back
            self.look_again()
        found, flows = {}, 0
        while self._to_look and flows < FLOWS_AT_ONCE:
            number = next(iter(self._to_look))
            del self._to_look[number]
            if number not in self._refused or number not in coflows:
                continue
            if self._refused[number] <= now_ns:  # too late for good
                del self._refused[number]
                continue
            rest = tuple(left(coflows[number]))
            flows += 1 + len(rest)
            if not rest:
                continue
            later = replace(coflows[number], opened_ns=now_ns, flows=rest)
            if self._lacking(later, MOST_LATER) is None:
                del self._refused[number]
                self._later[number] = later
                self._reserve(later)
                found[number] = self._verdicts[number] = Verdict(ADMITTED, "refused at first; others ended, and left it a rate")
        return found

    def verdict(self, coflow: int) -> Verdict | None:
        """What was decided about a coflow's deadline; None: it has none."""
        return self._verdicts.get(coflow)

    def _reserve(self, one: Coflow) -> None:
        assert one.deadline_ns is not None
        self._reserved.add(one.coflow, self._links.demand(one.flows), one.opened_ns, one.deadline_ns)

    def _decide(self, new: Coflow) -> Verdict:
        if new.verdict in (ADMITTED, REFUSED, UNCHECKED):
            return Verdict(new.verdict, "decided by the leader before")
        if not new.flows:
            return Verdict(UNCHECKED, "flows: not given, so nothing shows whether the deadline can be kept")
        lacking = self._lacking(new)
        if lacking is None:
            return Verdict(ADMITTED, f"every link has the rate that it needs until then, beside {len(self._reserved)} admitted")
        return Verdict(REFUSED, f"{lacking}; open it later, or with a later deadline")

    def _lacking(self, one: Coflow, most: float = 1.0) -> str | None:
        """Which link has too little left to end a coflow in time; None: none has. `most`: the part of what deadlines may need
        of a link that it may need alone."""
        assert one.deadline_ns is not None
        demand = self._links.demand(one.flows)
        rates = {port: self._usable * self._links.rate_bps(port) / 8e9 for port in demand}

        def taken(port: Port) -> float:
            return max(self._reserved.taken(port), (1 - most) * rates[port])

        left_ns = float(one.deadline_ns - one.opened_ns)
        if bottleneck_order.keeps_deadline(demand, left_ns, taken, rates):
            return None
        for port, size in demand.items():
            if left_ns <= 0 or size / left_ns + taken(port) > rates[port]:
                break
        wanted, free = (size / left_ns if left_ns > 0 else 0.0), max(0.0, rates[port] - taken(port))
        return f"{named(port)} has {_mbps(free)} left, it needs {_mbps(wanted)}"

    def _as_admitted(self, one: Coflow) -> Coflow:
        """A coflow as it was admitted, on the ways that there are now."""
        later = self._later.get(one.coflow)
        if later is None:
            return one
        same = {flow[:2] for flow in later.flows} <= {flow[:2] for flow in one.flows}
        return later if same else replace(one, opened_ns=later.opened_ns)


def _mbps(bytes_per_ns: float) -> str:
    return f"{bytes_per_ns * 8e3:.1f} Mb/s"
