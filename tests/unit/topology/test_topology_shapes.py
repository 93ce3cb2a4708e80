"""The shapes that fabrics come in."""

import pytest

from topology import shapes
from topology.paths import Routes
from topology.problems import FabricError
from topology.spanning_tree import compute


@pytest.mark.parametrize(
    ("shape", "given", "switches", "hosts", "links", "blocked"),
    [
        ("star", {"hosts": 6}, 1, 6, 6, 0),
        ("dumbbell", {"left": 3, "right": 2}, 2, 5, 6, 0),
        ("xco_racks", {"racks": 40}, 41, 800, 840, 0),
        ("xco_rows", {"rows": 24}, 265, 4800, 5064, 0),
        ("leaf_spine", {"leaves": 4, "spines": 3, "hosts_per_leaf": 2}, 7, 8, 20, 6),
        ("ring", {"switches": 5, "hosts_per_switch": 2}, 5, 10, 15, 1),
    ],
)
def test_a_shape_has_the_parts_that_its_name_promises(
    shape: str, given: dict[str, int], switches: int, hosts: int, links: int, blocked: int
) -> None:
    fabric = shapes.build(shape, **given)
    assert (len(fabric.switches), len(fabric.hosts), len(fabric.links)) == (switches, hosts, links)
    assert len(fabric.parts()) == 1
    assert len(compute(fabric).blocked) == blocked


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_every_port_and_address_and_datapath_id_of_a_shape_is_known_and_its_own(shape: str) -> None:
    fabric = shapes.build(shape, vms=3)
    ports = [fabric.port(direction) for link in fabric.links for direction in link.directions]
    assert None not in ports
    assert len(set(ports)) == len(ports)
    assert all(len(port) <= 15 for port in ports if port)  # IFNAMSIZ
    assert all(len(fabric.addresses(host)) == 3 and fabric.mac(host) for host in fabric.hosts)
    assert sorted(fabric.switch(name).dpid or 0 for name in fabric.switches) == list(range(1, len(fabric.switches) + 1))


def test_rates_reach_the_links_they_are_for() -> None:
    fabric = shapes.build("xco_racks", racks="2", host_rate_bps="100Mbit", uplink_rate_bps="1G")
    assert fabric.capacity_bps(("h1", "rack1")) == fabric.capacity_bps(("rack1", "h1")) == 10**8
    assert fabric.capacity_bps(("rack2", "core")) == 10**9


def test_both_levels_of_rows_are_oversubscribed() -> None:
    fabric = shapes.xco_rows(rows=4)
    path = Routes(fabric, compute(fabric)).path("h1", "h401")
    assert [fabric.capacity_bps(link) // 10**9 for link in path] == [1, 10, 10, 10, 10, 1]
    of_rack = [host for host in fabric.hosts if fabric.attachment(host) == "rack1"]
    assert len(of_rack) == 20 and len(fabric.hosts) == 4 * 200


def test_the_root_of_the_tree_is_in_the_middle() -> None:
    assert "core" not in compute(shapes.xco_racks()).parent
    assert "spine1" not in compute(shapes.leaf_spine()).parent


def test_parameters_are_listed_with_what_is_assumed() -> None:
    assert shapes.parameters("star") == {"hosts": 6, "rate_bps": 100_000_000, "vms": 1}


@pytest.mark.parametrize(
    ("shape", "given", "fields"),
    [
        ("moebius", {}, ["shape"]),
        ("star", {"host": 6, "rate_bps": "fast"}, ["host", "rate_bps"]),
        ("star", {"hosts": 0}, ["hosts"]),
        ("star", {"hosts": "six"}, ["hosts"]),
        ("ring", {"switches": 2}, ["switches"]),
    ],
)
def test_a_wrong_shape_or_parameter_is_named(shape: str, given: dict[str, int | str], fields: list[str]) -> None:
    with pytest.raises(FabricError) as caught:
        shapes.build(shape, **given)
    assert [problem.field for problem in caught.value.problems] == fields
