"""Which deadlines of coflows are kept: each is admitted or refused when its coflow is opened. Pure.

Varys' rule (Chowdhury et al., SIGCOMM 2014): what is admitted reserves, at each port, the rate that ends it just in time, until
its deadline or its end; a coflow is refused where a port has no such rate left. Varys' fabric is one big switch, and its ports
are hosts' links; here the links between switches count as well, since those of a tree carry less than the hosts behind them can
send. A refused coflow goes without its deadline, so that it cannot make those late that were admitted. What the decision needs
is in the documents of the coflows, so another leader comes to the same one, except for coflows that have been closed since; so
it goes by what the leader before decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from controller.coflows import bottleneck_order
from controller.coflows.coflow import Coflow, Flow
from controller.coflows.reservations import Reservations
from topology.fabric import DirectedLink

ADMITTED, REFUSED, UNCHECKED = "admitted", "refused", "unchecked"
USABLE = 0.85
"""Of a link's rate: headers take a twentieth, and MCP aims at 15/16 of the deadline."""
Port = tuple[str, str]
"""Whether a host sends ("out") or receives ("in"), and its name."""
InnerLinks = Callable[[str, str], Mapping[DirectedLink, int]]
"""The links between switches on the way from one host to another, and what each carries (bit/s); none: the way is not known."""


class Verdict(NamedTuple):
    """Whether a deadline is kept, and why (or why not)."""

    deadline: str
    why: str


class Deadlines:
    """Decides about the deadlines of the open coflows, once each."""

    def __init__(
        self, rate_bps: Callable[[str], int], inner_links: InnerLinks = lambda source, destination: {}, usable: float = USABLE
    ) -> None:
        """`rate_bps`: of a host's link; `usable`: the share of every link that admitted deadlines may need."""
        self._rate_bps = rate_bps
        self._inner_links = inner_links
        self._usable = usable
        self._verdicts: dict[int, Verdict] = {}
        self._admitted: dict[int, Coflow] = {}
        self._reserved: Reservations[Port | DirectedLink] = Reservations()
        self._is_rerouted = False

    def update(self, coflows: Iterable[Coflow]) -> dict[int, Verdict]:
        """Takes the coflows that are open now, in the order in which they were opened; returns what was decided anew."""
        dated = {one.coflow: one for one in coflows if one.deadline_ns is not None}
        for number in self._verdicts.keys() - dated.keys():
            del self._verdicts[number]
            self._admitted.pop(number, None)
            self._reserved.remove(number)
        new = [number for number in dated if number not in self._verdicts]
        if new and self._is_rerouted:
            self._is_rerouted, self._reserved = False, Reservations()
            for one in self._admitted.values():
                self._reserve(one)
        for number in new:
            one = dated[number]
            self._reserved.end(one.opened_ns)
            verdict = self._verdicts[number] = self._decide(one)
            if verdict.deadline == ADMITTED:
                self._admitted[number] = one
                self._reserve(one)
        return {number: self._verdicts[number] for number in new}

    def reroute(self) -> None:
        """Ways between hosts are others now: what is decided stays, and needs the links of the new ways."""
        self._is_rerouted = True

    def verdict(self, coflow: int) -> Verdict | None:
        """What was decided about a coflow's deadline; None: it has none."""
        return self._verdicts.get(coflow)

    def _reserve(self, one: Coflow) -> None:
        assert one.deadline_ns is not None
        self._reserved.add(one.coflow, self._demand(one.flows)[0], one.opened_ns, one.deadline_ns)

    def _demand(self, flows: Iterable[Flow]) -> tuple[dict[Port | DirectedLink, float], dict[Port | DirectedLink, float]]:
        """The bytes that flows send through each port and each link between switches, and its usable rate in bytes/ns."""
        demand: dict[Port | DirectedLink, float] = dict(demand_of(flows))
        rates_bps: dict[Port | DirectedLink, int] = {port: self._rate_bps(port[1]) for port in demand}
        for source, destination, size in flows:
            for link, carried_bps in self._inner_links(source, destination).items():
                demand[link] = demand.get(link, 0.0) + size
                rates_bps[link] = carried_bps
        return demand, {link: self._usable * carried_bps / 8e9 for link, carried_bps in rates_bps.items()}

    def _decide(self, new: Coflow) -> Verdict:
        if new.verdict in (ADMITTED, REFUSED, UNCHECKED):
            return Verdict(new.verdict, "decided by the leader before")
        if not new.flows:
            return Verdict(UNCHECKED, "flows: not given, so nothing shows whether the deadline can be kept")
        assert new.deadline_ns is not None
        demand, rates = self._demand(new.flows)
        reserved = self._reserved
        left_ns = float(new.deadline_ns - new.opened_ns)
        if bottleneck_order.keeps_deadline(demand, left_ns, reserved.taken, rates):
            return Verdict(ADMITTED, f"every link has the rate that it needs until then, beside {len(reserved)} admitted")
        for port, size in demand.items():
            taken = reserved.taken(port)
            if left_ns <= 0 or size / left_ns + taken > rates[port]:
                break
        wanted, left = (size / left_ns if left_ns > 0 else 0.0), max(0.0, rates[port] - taken)
        text = f"{_named(port)} has {_mbps(left)} left, "
        return Verdict(REFUSED, text + f"it needs {_mbps(wanted)}; open it later, or with a later deadline")


def demand_of(flows: Iterable[Flow]) -> dict[Port, float]:
    """The bytes that flows send through each port."""
    found: dict[Port, float] = {}
    for source, destination, size in flows:
        for port in (("out", source), ("in", destination)):
            found[port] = found.get(port, 0.0) + size
    return found


def _named(port: Port | DirectedLink) -> str:
    if isinstance(port, DirectedLink):
        return f"the link from {port.source} to {port.target}"
    return f"{port[1]}'s link {'to' if port[0] == 'in' else 'from'} the fabric"


def _mbps(bytes_per_ns: float) -> str:
    return f"{bytes_per_ns * 8e3:.1f} Mb/s"
