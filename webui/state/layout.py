"""Computes where to draw each node of a fabric: hosts below, switches in tiers above them. Pure.

A switch's tier is its distance from the nearest rack switch, which is of tier 1. A switch with hosts is a rack switch, but for
one with few hosts that is joined to others than rack switches are, such as a core switch with the controller's port: its hosts
are drawn in the tier below it. Within a tier, nodes are ordered by the mean position of their
neighbours, in alternating sweeps down and up, so that few links cross (K. Sugiyama et al., Methods for Visual Understanding of
Hierarchical System Structures, IEEE Trans. SMC 11(2), 1981: the barycentre method).
"""

from __future__ import annotations

from itertools import pairwise

import networkx as nx

from topology.fabric import Fabric, natural

SWEEPS = 4


def levels_of(fabric: Fabric) -> list[list[str]]:
    """The switches of each tier, in no order; the first tier is the hosts', and empty."""
    switches = fabric.graph.to_undirected(as_view=True).subgraph(fabric.switches)
    racks = rack_switches(fabric)
    levels = [[], *nx.bfs_layers(switches, racks)] if racks else [[]]
    known = {node for level in levels for node in level}
    apart = [node for node in fabric.switches if node not in known]  # no host in their part of the fabric
    if apart:
        levels = [*levels, apart] if len(levels) < 2 else [levels[0], levels[1] + apart, *levels[2:]]
    return levels


def tiers(fabric: Fabric) -> list[list[str]]:
    """The nodes of each tier, hosts first, from left to right."""
    graph = fabric.graph.to_undirected(as_view=True)
    levels = levels_of(fabric)
    tier = {switch: number for number, level in enumerate(levels) for switch in level}
    for host in fabric.hosts:
        levels[tier.get(fabric.attachment(host) or "", 1) - 1].append(host)
    levels = [sorted(level, key=natural) for level in levels]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for fixed, moved in pairwise(reversed(range(len(levels))) if down else range(len(levels))):
            levels[moved] = _ordered(graph, levels[fixed], levels[moved])
    return levels


def rack_switches(fabric: Fabric) -> list[str]:
    """The switches of tier 1.

    Those with more than half as many hosts as the one with the most. Of the others with hosts, those whose links are like some
    rack switch's: to no other switches, and not faster; and there is no switch without hosts that has the same links.
    """
    hosts = dict.fromkeys(fabric.switches, 0)
    for host in fabric.hosts:
        if (attached := fabric.attachment(host)) is not None:
            hosts[attached] += 1
    most = max(hosts.values(), default=0)
    many = [switch for switch, count in hosts.items() if 2 * count > most]
    up = {switch: {to: fabric.capacity_bps((switch, to)) for to in fabric.graph[switch] if to in hosts} for switch in hosts}
    empty = [up[switch] for switch, count in hosts.items() if not count]

    def like(switch: str, rack: str) -> bool:
        own, other = up[switch], up[rack]
        return all(to == rack or (to in other and rate_bps <= other[to]) for to, rate_bps in own.items())

    few = [switch for switch, count in hosts.items() if 0 < 2 * count <= most and up[switch] not in empty]
    return many + [switch for switch in few if any(like(switch, rack) for rack in many)] if most else []


def places(fabric: Fabric) -> dict[str, tuple[int, float, float]]:
    """Each node's tier (0: hosts), and its position in a square of side 1, with y from the top."""
    levels = {number: level for number, level in enumerate(tiers(fabric)) if level}
    if not levels:
        return {}
    top = max(max(levels), 1)
    found = {}
    for number, level in levels.items():
        y = 1 - number / top
        for at, node in enumerate(level):
            found[node] = number, round((at + 0.5) / len(level), 5), round(y, 5)
    return found


def _ordered(graph: nx.Graph[str], fixed: list[str], moved: list[str]) -> list[str]:
    """The nodes `moved`, ordered by the mean position of their neighbours in `fixed`; nodes without one keep their position."""
    place = {node: (at + 0.5) / len(fixed) for at, node in enumerate(fixed)}
    keys = {}
    for at, node in enumerate(moved):
        near = [place[other] for other in graph[node] if other in place]
        keys[node] = sum(near) / len(near) if near else (at + 0.5) / len(moved)
    return sorted(moved, key=lambda node: keys[node])
