"""Computes where to draw each node of a fabric: hosts below, switches in tiers above them. Pure.

A switch's tier is its distance from the nearest host. Within a tier, nodes are ordered by the mean position of their
neighbours, in alternating sweeps down and up, so that few links cross (K. Sugiyama et al., Methods for Visual Understanding of
Hierarchical System Structures, IEEE Trans. SMC 11(2), 1981: the barycentre method).
"""

from __future__ import annotations

from itertools import pairwise

import networkx as nx

from topology.fabric import Fabric, natural

SWEEPS = 4


def tiers(fabric: Fabric) -> list[list[str]]:
    """The nodes of each tier, hosts first, from left to right."""
    graph = fabric.graph.to_undirected(as_view=True)
    levels = [list(fabric.hosts)]
    if fabric.hosts:
        levels += [[node for node in layer if node in fabric.switches] for layer in nx.bfs_layers(graph, fabric.hosts)][1:]
    known = {node for level in levels for node in level}
    apart = [node for node in fabric.switches if node not in known]  # no host in their part of the fabric
    if apart:
        levels = [*levels, apart] if len(levels) < 2 else [levels[0], levels[1] + apart, *levels[2:]]
    levels = [sorted(level, key=natural) for level in levels]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for fixed, moved in pairwise(reversed(range(len(levels))) if down else range(len(levels))):
            levels[moved] = _ordered(graph, levels[fixed], levels[moved])
    return levels


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
