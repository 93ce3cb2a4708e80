"""Another tree for a swarm's fabric: a switch loses its uplink, and hangs below its neighbour. Pure."""

from __future__ import annotations

from topology.fabric import DirectedLink, Fabric, natural
from topology.spanning_tree import compute


def rehung(fabric: Fabric) -> tuple[Fabric, DirectedLink]:
    """The fabric in which the first switch below the root hangs below the second one, at the same rate; and its new uplink.

    Raises ValueError: the root has fewer than two switches below it.
    """
    parents = compute(fabric).parent
    root = next(name for name in fabric.switches if parents.get(name) is None)
    below = sorted((name for name in fabric.switches if parents.get(name) == root), key=natural)
    if len(below) < 2:
        raise ValueError(f"--change-tree needs two switches below {root}, and there are {len(below)}: give more --hosts")
    moved, neighbour = below[:2]
    content = fabric.to_dict()
    for link in content["links"]:
        if {link["a"], link["b"]} == {root, moved}:
            end = "a" if link["a"] == root else "b"
            link[end], link[f"{end}_port"] = neighbour, None
    return Fabric.from_dict(content), DirectedLink(moved, neighbour)
