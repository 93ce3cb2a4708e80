"""A slow, literal form of the timeslice selection, to judge the real one by.

It follows XCo's Algorithm 1 as Baton's design describes it (DESIGN, "The timeslice policy"; REFERENCE 9), set by set, with
everything computed anew for every question: backlog groups B_x, contention groups beta_ij, active groups alpha_ij, and

    x may become active to y  <=>  x is idle, and on every link ij of the path from x to y
                                   (sum of C_z over z in alpha_ij) + C_x <= C_ij

C_x is the rate that x's slot reserves. As slots are granted ahead, "in alpha_ij" is asked of every instant of the slot that
x would get. It knows nothing of lines, turns or frontiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controller.policies.base import Slot
from tests.unit.controller.policies.policy_networks import Link, TreeNetwork

Pair = tuple[int, int]


def backlog_groups(
    backlogs: Mapping[int, Iterable[int]], regulated: Mapping[int, frozenset[int]]
) -> dict[int, frozenset[int]]:
    """B_x of every node x: the destinations to which it is backlogged, and needs permission."""
    return {x: frozenset(b) & regulated.get(x, frozenset()) for x, b in backlogs.items()}


def contention_groups(network: TreeNetwork, groups: Mapping[int, frozenset[int]]) -> dict[Link, frozenset[int]]:
    """beta_ij of every link: the nodes that are backlogged to some destination across it."""
    beta: dict[Link, set[int]] = {}
    for x, destinations in groups.items():
        for y in destinations:
            for link in network.path(x, y):
                beta.setdefault(link, set()).add(x)
    return {link: frozenset(nodes) for link, nodes in beta.items()}


def active_group(network: TreeNetwork, slots: Iterable[Slot], link: Link, at_ns: int) -> list[Slot]:
    """alpha_ij of a link at an instant, as slots."""
    return [s for s in slots if s.start_ns <= at_ns < s.end_ns and link in network.path(s.node, s.destination)]


def instants(slots: Sequence[Slot], start_ns: int, end_ns: int) -> list[int]:
    """The instants of an interval at which something may have become active: its start, and the starts within it."""
    return [start_ns, *(s.start_ns for s in slots if start_ns < s.start_ns < end_ns)]


def overloaded(network: TreeNetwork, slots: Sequence[Slot], from_ns: int) -> list[str]:
    """Every breach of feasibility from an instant on, in words: a link with too much, a node with two destinations."""
    breaches = []
    end_ns = max((s.end_ns for s in slots), default=from_ns)
    for at_ns in instants(slots, from_ns, end_ns):
        now = [s for s in slots if s.start_ns <= at_ns < s.end_ns]
        nodes = [s.node for s in now]
        breaches += [f"node {n} has two slots at {at_ns}" for n in set(nodes) if nodes.count(n) > 1]
        for link in {link for s in now for link in network.path(s.node, s.destination)}:
            load = sum(s.reserved_bps for s in active_group(network, now, link, at_ns))
            if load > network.capacity_bps(link):
                breaches.append(f"{link} carries {load} at {at_ns}")
    return breaches


def rate(network: TreeNetwork, x: int, y: int) -> int:
    """C_x towards y: the node's rate, or its bottleneck's if that is less."""
    return min([network.node_rate_bps(x), *(network.capacity_bps(link) for link in network.path(x, y))])


def addable(
    network: TreeNetwork,
    groups: Mapping[int, frozenset[int]],
    slots: Sequence[Slot],
    now_ns: int,
    length_ns: int,
    fraction: float = 1.0,
) -> list[Pair]:
    """The pairs that a maximal selection would not have left idle: each could be active from now on for a whole slice."""
    found = []
    for x, destinations in groups.items():
        if any(s.node == x and s.start_ns < now_ns + length_ns and s.end_ns > now_ns for s in slots):
            continue
        for y in destinations:
            need = max(1, int(rate(network, x, y) * fraction))
            if all(
                sum(s.reserved_bps for s in active_group(network, slots, link, at_ns)) + need <= network.capacity_bps(link)
                for link in network.path(x, y)
                for at_ns in instants(slots, now_ns, now_ns + length_ns)
            ):
                found.append((x, y))
    return found


def select(
    network: TreeNetwork, groups: Mapping[int, frozenset[int]], order: Sequence[Pair], length_ns: int
) -> set[Pair]:
    """The published greedy selection on an idle fabric: in the given order, whoever may become active does."""
    slots: list[Slot] = []
    for x, y in order:
        if (x, y) in addable(network, {x: groups[x] & {y}}, slots, 0, length_ns):
            slots.append(Slot(len(slots) + 1, x, y, 0, length_ns, 0, 0, rate(network, x, y)))
    return {(s.node, s.destination) for s in slots}
