"""Which deadlines of coflows are kept: each is admitted or refused when its coflow is opened. Pure.

Varys' rule (Chowdhury et al., SIGCOMM 2014): what is admitted reserves, at each port, the rate that ends it just in time, until
its deadline or its end; a coflow is refused where a port has no such rate left. Varys' fabric is one big switch, and its ports
are hosts' links; here the links between switches count as well, since those of a tree carry less than the hosts behind them can
send. A refused coflow goes without its deadline, so that it cannot make those late that were admitted. What the decision needs
is in the documents of the coflows, so another leader comes to the same one, except for coflows that have been closed since; so
it goes by what the leader before decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from controller.coflows import bottleneck_order
from controller.coflows.coflow import Coflow
from controller.coflows.links import Links, Port, named
from controller.coflows.reservations import Reservations

ADMITTED, REFUSED, UNCHECKED = "admitted", "refused", "unchecked"
USABLE = 0.85
"""Of a link's rate: headers take a twentieth, and MCP aims at 15/16 of the deadline."""


class Verdict(NamedTuple):
    """Whether a deadline is kept, and why (or why not)."""

    deadline: str
    why: str


class Deadlines:
    """Decides about the deadlines of the open coflows, once each."""

    def __init__(self, links: Links, usable: float = USABLE) -> None:
        """`usable`: the share of every link that admitted deadlines may need."""
        self._links = links
        self._usable = usable
        self._verdicts: dict[int, Verdict] = {}
        self._reserved: Reservations[Port] = Reservations()

    def update(self, coflows: Iterable[Coflow]) -> dict[int, Verdict]:
        """Takes the coflows that are open now, in the order in which they were opened; returns what was decided anew."""
        dated = {one.coflow: one for one in coflows if one.deadline_ns is not None}
        for number in self._verdicts.keys() - dated.keys():
            del self._verdicts[number]
            self._reserved.remove(number)
        new = [number for number in dated if number not in self._verdicts]
        for number in new:
            one = dated[number]
            self._reserved.end(one.opened_ns)
            verdict = self._verdicts[number] = self._decide(one)
            if verdict.deadline == ADMITTED:
                self._reserve(one)
        return {number: self._verdicts[number] for number in new}

    def renew(self, one: Coflow) -> None:
        """Reserves what a coflow needs on the ways that there are now, if it was admitted; what is decided stays."""
        known = self._verdicts.get(one.coflow)
        if known is not None and known.deadline == ADMITTED:
            self._reserved.remove(one.coflow)
            self._reserve(one)

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
        assert new.deadline_ns is not None
        demand, reserved = self._links.demand(new.flows), self._reserved
        rates = {port: self._usable * self._links.rate_bps(port) / 8e9 for port in demand}
        left_ns = float(new.deadline_ns - new.opened_ns)
        if bottleneck_order.keeps_deadline(demand, left_ns, reserved.taken, rates):
            return Verdict(ADMITTED, f"every link has the rate that it needs until then, beside {len(reserved)} admitted")
        for port, size in demand.items():
            taken = reserved.taken(port)
            if left_ns <= 0 or size / left_ns + taken > rates[port]:
                break
        wanted, left = (size / left_ns if left_ns > 0 else 0.0), max(0.0, rates[port] - taken)
        text = f"{named(port)} has {_mbps(left)} left, "
        return Verdict(REFUSED, text + f"it needs {_mbps(wanted)}; open it later, or with a later deadline")


def _mbps(bytes_per_ns: float) -> str:
    return f"{bytes_per_ns * 8e3:.1f} Mb/s"
