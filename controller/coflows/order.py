"""The order of the open coflows, which the controller chooses by what is known of them: which queue each has. Pure.

    queue 0      coflows whose deadline is admitted and still ahead: their flows are of type 1
    queue 1 ...  all others, in this order, as far as they share a port (`controller.coflows.queues`)
    queue 7      what is left

*Sizes by pair of hosts known*: Sincronia's order (`bottleneck_order`) of the bytes that are left. *Only the sum known*: the
least left first. *Nothing known*, or more sent than was declared: discretised attained service (`attained_service`), by what
hosts report. The three are merged by the class of the bytes that are left, or have been sent; in one class, what is known goes
first, since it ends soon for certain.

A coflow for which hosts have reported no byte for `IDLE_NS` keeps its place and takes up no queue: its program may be gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from controller.coflows import attained_service, bottleneck_order, service_limits
from controller.coflows.coflow import Coflow, Flow
from controller.coflows.deadlines import REFUSED, Deadlines, Verdict
from controller.coflows.links import FLOWS_AT_ONCE, Links, Port, Ways
from controller.coflows.queues import DEADLINE_QUEUE, Placed, assign
from controller.coflows.sent_bytes import SentBytes

IDLE_NS = 1_000_000_000
SETTLE_NS = 200_000_000
SIZES_KEPT = 200
EIGHTHS = 8
TRUST = 1.1
"""A coflow that has sent more than so many times what was declared counts as one of unknown size."""
MOST_BY_BOTTLENECK = 32
"""Sincronia's order takes time that grows with the square: those with more left than so many others go behind them, the least
left first. There are seven queues."""
BY_BOTTLENECK, BY_SUM, BY_SENT, BY_DEADLINE = "bytes by host", "bytes in all", "bytes sent", "deadline"


class Place(NamedTuple):
    """A coflow's place in the order, and what it goes by."""

    coflow: int
    by: str
    queue: int


class CoflowOrder:
    """Keeps the open coflows, what hosts have sent for them, and the sizes of those that were closed."""

    def __init__(self, ways: Ways, first_bytes: float | None = None) -> None:
        """`ways`: of the fabric. `first_bytes`: the first limit of attained service; None: found from sizes.

        Raises ValueError: a limit that is not above 0.
        """
        if first_bytes is not None and first_bytes <= 0:
            raise ValueError(f"first_bytes is {first_bytes}; it is above 0, or left out")
        self._ways = ways
        self._links = Links(ways)
        self._fixed_first = first_bytes
        self._learnt_first: float | None = None
        self._open: dict[int, Coflow] = {}
        self._closed: dict[int, int | None] = {}
        """Those that were closed and whose sizes are not taken yet, with when that was seen."""
        self._declared_ports: dict[int, frozenset[Port]] = {}
        self._to_follow: dict[int, None] = {}
        """Those whose ways may be others than when their ports were taken."""
        self._sizes: deque[int] = deque(maxlen=SIZES_KEPT)
        self._queues: dict[int, int] = {}
        self.changed = False
        """Whether what is known has changed since the last call of `places`."""
        self._reports = False
        """Whether any host has reported bytes of coflows."""
        self.sent = SentBytes()
        self.deadlines = Deadlines(self._links)

    def update(self, coflows: Iterable[Coflow]) -> dict[int, Verdict]:
        """Takes the coflows that are open now; returns what was decided about deadlines of new ones."""
        before, self.changed = self._open, True
        self._open = {one.coflow: one for one in sorted(coflows, key=lambda one: (one.opened_ns, one.coflow))}
        self._closed |= dict.fromkeys(before.keys() - self._open.keys())
        for number in self._closed.keys() & self._open.keys():
            del self._closed[number]
        for number, one in self._open.items():
            if (known := before.get(number)) is None or known.flows != one.flows:
                self._take_ways(one)
        for number in self._declared_ports.keys() - self._open.keys():
            del self._declared_ports[number]
        self.sent.keep(self._open.keys() | self._closed.keys())
        return self.deadlines.update(self._open.values())

    def admit_later(self, now_ns: int) -> dict[int, Verdict]:
        """What was decided anew about deadlines that were refused."""
        found = self.deadlines.admit_later(self._open, self._left, now_ns)
        self.changed |= bool(found)
        return found

    def reroute(self) -> None:
        """Ways may be others now: `follow` looks at them, coflow by coflow."""
        self._links.reroute()
        self.deadlines.look_again()
        self._to_follow = dict.fromkeys(self._open)

    def follow(self) -> None:
        """Takes the ways of some coflows as they are now."""
        flows = 0
        while self._to_follow and flows < FLOWS_AT_ONCE:
            number = next(iter(self._to_follow))
            del self._to_follow[number]
            if number in self._open:
                one, self.changed = self._open[number], True
                self._take_ways(one)
                flows += len(one.flows)

    def _take_ways(self, one: Coflow) -> None:
        self._declared_ports[one.coflow] = frozenset(self._links.demand(one.flows))
        self.deadlines.renew(one)

    def report(self, coflow: int, source: str, destination: str, size_bytes: int, now_ns: int, node: int = 0) -> None:
        """Takes what a host says that it has sent for a coflow so far to a node. Of a coflow that is not open it is nothing,
        and from a host that by the coflow's flows sends nothing for it."""
        one = self._open.get(coflow)
        if one is not None and one.flows and ("out", source) not in self._declared_ports[coflow]:
            return
        if coflow in self._closed:
            self.sent.report(coflow, (source, destination), size_bytes, now_ns, node)
        elif coflow in self._open:
            before = self._standing(coflow)
            self.sent.report(coflow, (source, destination), size_bytes, now_ns, node)
            self.changed |= not self._reports or self._standing(coflow) != before
            self._reports = True

    def places(self, *, now_ns: int) -> list[Place]:
        """All coflows that have not expired, first to last, with the queue of each."""
        self.changed = False
        self._learn(now_ns)
        there = {number: one for number, one in self._open.items() if one.expires_ns > now_ns}
        dated = {number for number, one in there.items() if self._is_dated(one, now_ns)}
        ordered = self._ordered({number: one for number, one in there.items() if number not in dated})
        placed = [Placed(number, self._ports(there[number]), self._is_busy(there[number], now_ns)) for number, _ in ordered]
        self._queues = assign(placed, self._queues)
        first = [Place(number, BY_DEADLINE, DEADLINE_QUEUE) for number in there if number in dated]
        return first + [Place(number, by, self._queues[number]) for number, by in ordered]

    def queues(self, *, now_ns: int) -> dict[int, int]:
        """The queue of every coflow, by id."""
        return {place.coflow: place.queue for place in self.places(now_ns=now_ns)}

    def next_ns(self, now_ns: int) -> int:
        """When time alone may change the order next."""
        instants = [instant for one in self._open.values() for instant in (one.deadline_ns, one.expires_ns) if instant]
        return min([now_ns + IDLE_NS // 10, *(instant for instant in instants if instant > now_ns)])

    def _standing(self, coflow: int) -> tuple[int, int, int]:
        """What the order depends on, coarsely: pairs of hosts, sent eighths of a known size, the class of what was sent."""
        sent, declared = self.sent.total(coflow), self._open[coflow].declared_bytes
        eighths = 0 if declared is None else EIGHTHS * sent // declared
        return len(self.sent.pairs(coflow)), eighths, attained_service.class_of(sent, self._first_bytes())

    def _learn(self, now_ns: int) -> None:
        """Takes the sizes of coflows that were closed a while ago: the last reports of their bytes come after that."""
        learnt = False
        for number, since in list(self._closed.items()):
            if since is None:
                self._closed[number] = now_ns
            elif now_ns - since >= SETTLE_NS:
                del self._closed[number]
                if size := self.sent.total(number):
                    self._sizes.append(size)
                    learnt = True
        if learnt:
            self._learnt_first = service_limits.best_first(self._sizes, attained_service.FACTOR)

    # -- the order -----------------------------------------------------------------------------------------------------

    def _ordered(self, coflows: dict[int, Coflow]) -> list[tuple[int, str]]:
        left: dict[int, float] = {}
        kinds: dict[str, list[int]] = {BY_BOTTLENECK: [], BY_SUM: [], BY_SENT: []}
        for number, one in coflows.items():
            declared, sent = one.declared_bytes, self.sent.total(number)
            if declared is None or sent > TRUST * declared:
                left[number] = sent
                kinds[BY_SENT].append(number)
            else:
                left[number] = max(0, declared - sent)
                kinds[BY_BOTTLENECK if one.flows else BY_SUM].append(number)
        first = self._first_bytes()
        unknown = kinds[BY_SENT]
        opened = {number: float(coflows[number].opened_ns) for number in unknown}
        lists = {
            BY_BOTTLENECK: self._by_bottleneck(sorted(kinds[BY_BOTTLENECK], key=lambda number: (left[number], number))),
            BY_SUM: sorted(kinds[BY_SUM], key=lambda number: (left[number], number)),
            BY_SENT: attained_service.order({number: left[number] for number in unknown}, opened, first),
        }
        return _merged(lists, lambda number: attained_service.class_of(left[number], first))

    def _by_bottleneck(self, smallest_first: list[int]) -> list[int]:
        chosen, rest = smallest_first[:MOST_BY_BOTTLENECK], smallest_first[MOST_BY_BOTTLENECK:]
        demands = {number: self._links.demand(self._left(self._open[number])) for number in chosen}
        rates = {port: float(self._links.rate_bps(port)) for port in set().union(*demands.values())}
        return bottleneck_order.order(demands, rates) + rest

    def _left(self, one: Coflow) -> list[Flow]:
        sent = self.sent.pairs(one.coflow)
        return [
            Flow(source, destination, size - sent.get((source, destination), 0))
            for source, destination, size in one.flows
            if size > sent.get((source, destination), 0)
        ]

    def _first_bytes(self) -> float:
        if self._fixed_first is not None:
            return self._fixed_first
        if self._learnt_first is not None:
            return self._learnt_first
        return attained_service.FIRST_NS * self._ways.host_bps("") / 8e9

    def _ports(self, one: Coflow) -> Set[Port] | None:
        if one.flows:
            return self._declared_ports[one.coflow]
        pairs = self.sent.pairs(one.coflow)
        if not pairs or any(not destination for _, destination in pairs):
            return None
        return {port for pair in pairs for port in self._links.ports(*pair)}

    def _is_dated(self, one: Coflow, now_ns: int) -> bool:
        verdict = self.deadlines.verdict(one.coflow)
        if one.deadline_ns is None or now_ns >= one.deadline_ns:
            return False
        return verdict is None or verdict.deadline != REFUSED

    def _is_busy(self, one: Coflow, now_ns: int) -> bool:
        since = self.sent.active_ns(one.coflow)
        return not self._reports or now_ns - (one.opened_ns if since is None else since) < IDLE_NS


def _merged(lists: dict[str, list[int]], class_of: Callable[[int], int]) -> list[tuple[int, str]]:
    """Several ordered lists as one that keeps the order of each: the head of the lowest class next, of the first such list."""
    heads = dict.fromkeys(lists, 0)
    found = []
    while any(heads[name] < len(some) for name, some in lists.items()):
        waiting = [name for name, some in lists.items() if heads[name] < len(some)]
        name = min(waiting, key=lambda name: class_of(lists[name][heads[name]]))
        found.append((lists[name][heads[name]], name))
        heads[name] += 1
    return found
