"""A switch loses its uplink and hangs below its neighbour: the same nodes, as many links, every host still reached."""

from __future__ import annotations

import pytest

from bench.swarm.rehanging import rehung
from topology import shapes
from topology.paths import Routes
from topology.spanning_tree import compute


def test_a_row_hangs_below_its_neighbour_at_the_same_rate() -> None:
    fabric = shapes.xco_rows(4, 10, 2)
    changed, uplink = rehung(fabric)
    assert (changed.hosts, changed.switches, len(changed.links)) == (fabric.hosts, fabric.switches, len(fabric.links))
    root = compute(fabric).parent[uplink.source]
    assert changed.capacity_bps(uplink) == fabric.capacity_bps((uplink.source, root))
    path = Routes(changed, compute(changed)).path(changed.hosts[0], changed.hosts[-1])
    assert uplink in path and len(path) == len(Routes(fabric, compute(fabric)).path(fabric.hosts[0], fabric.hosts[-1])) + 1


def test_a_single_row_has_no_neighbour() -> None:
    with pytest.raises(ValueError, match="two switches below"):
        rehung(shapes.xco_rows(1, 1, 2))
