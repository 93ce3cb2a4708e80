"""What a fabric is, and what it refuses to be."""

import json
import random
from collections.abc import Callable
from ipaddress import ip_address

import pytest
from hypothesis import given

from tests.unit.topology.topology_strategies import PROPERTY, Step, assemble, fabric_steps, fabrics
from topology.fabric import DirectedLink, Fabric, FabricBuilder, Link
from topology.problems import FabricError


def two_switches() -> FabricBuilder:
    builder = FabricBuilder().add_switch("s1", dpid=1).add_switch("s2").add_link("s1", "s2", 10**10, "up", "down", 10**9)
    builder.add_host("h1", ["10.0.0.1", "2001:db8::1"], "02-00-00-00-00-0A").add_link("h1", "s1", 10**9, None, "p1")
    return builder.add_host("h2")


def test_each_direction_has_its_capacity_and_its_port() -> None:
    fabric = two_switches().build()
    assert fabric.capacity_bps(DirectedLink("s1", "s2")) == 10**10
    assert fabric.capacity_bps(DirectedLink("s2", "s1")) == 10**9
    assert fabric.capacity_bps(("h1", "s1")) == fabric.capacity_bps(("s1", "h1")) == 10**9
    assert (fabric.port(("s1", "s2")), fabric.port(("s2", "s1"))) == ("up", "down")
    assert (fabric.port(("h1", "s1")), fabric.port(("s1", "h1"))) == (None, "p1")


def test_a_host_has_its_addresses_its_mac_and_its_switch() -> None:
    fabric = two_switches().build()
    assert fabric.addresses("h1") == (ip_address("10.0.0.1"), ip_address("2001:db8::1"))
    assert fabric.mac("h1") == "02:00:00:00:00:0a"
    assert fabric.attachment("h1") == "s1"
    assert fabric.neighbours("s1") == ("h1", "s2")
    assert fabric.links == {Link("h1", "s1"), Link("s1", "s2")}


def test_hosts_are_listed_as_people_count() -> None:
    builder = FabricBuilder()
    for number in (10, 2, 1):
        builder.add_host(f"h{number}")
    assert builder.build().hosts == ("h1", "h2", "h10")


REFUSALS: list[tuple[str, str, Callable[[FabricBuilder], object]]] = [
    ("name", "there is a 'h1' already", lambda b: b.add_switch("h1")),
    ("name", "white space", lambda b: b.add_host("h 2")),
    ("name", "white space and '>'", lambda b: b.add_switch("s1>s2")),
    ("name", "1 to 64", lambda b: b.add_host("")),
    ("dpid", "belongs to 's1'", lambda b: b.add_switch("s3", dpid=1)),
    ("dpid", "datapath id", lambda b: b.add_switch("s3", dpid=0)),
    ("priority", "65535", lambda b: b.add_switch("s3", priority=65536)),
    ("addresses[1]", "belongs to 'h1'", lambda b: b.add_host("h4", ["10.0.0.2", "10.0.0.1"])),
    ("addresses[0]", "not an IP address", lambda b: b.add_host("h4", ["10.0.0.256"])),
    ("addresses[0]", "not an IP address", lambda b: b.add_host("h4", ["fd00::4%eth0"])),
    ("addresses[1]", "twice", lambda b: b.add_host("h4", ["10.0.0.2", "10.0.0.2"])),
    ("mac", "belongs to 'h1'", lambda b: b.add_host("h4", mac="02:00:00:00:00:0a")),
    ("mac", "unicast", lambda b: b.add_host("h4", mac="01:00:00:00:00:0a")),
    ("b", "no node is named 'x'", lambda b: b.add_link("s1", "x", 1)),
    ("rate_bps", "positive", lambda b: b.add_link("h2", "s2", 0)),
    ("reverse_rate_bps", "positive", lambda b: b.add_link("h2", "s2", 1, reverse_rate_bps=-1)),
    ("b", "itself", lambda b: b.add_link("s1", "s1", 1)),
    ("b", "joined already", lambda b: b.add_link("s2", "s1", 1)),
    ("a", "has a link already", lambda b: b.add_link("h1", "s2", 1)),
    ("b", "both hosts", lambda b: b.add_link("h1", "h2", 1)),
    ("b_port", "already leads to 's2'", lambda b: b.add_link("h2", "s1", 1, "eth0", "up")),
]


@pytest.mark.parametrize(("field", "text", "add"), REFUSALS)
def test_what_can_not_be_is_refused_by_field_with_a_remedy_and_changes_nothing(
    field: str, text: str, add: Callable[[FabricBuilder], object]
) -> None:
    builder = two_switches()
    before = builder.build()
    with pytest.raises(FabricError, match=text) as caught:
        add(builder)
    assert [problem.field for problem in caught.value.problems] == [field]
    assert all("; " in problem.text and "\n" not in problem.text for problem in caught.value.problems)
    assert builder.build() == before


def test_all_that_is_wrong_with_a_link_is_said_at_once() -> None:
    with pytest.raises(FabricError) as caught:
        two_switches().add_link("x", "y", 0, None, None, 5)
    assert [problem.field for problem in caught.value.problems] == ["a", "b", "rate_bps"]


def test_a_built_fabric_does_not_change_with_its_builder() -> None:
    builder = two_switches()
    fabric = builder.build()
    builder.add_host("h3")
    assert "h3" not in fabric
    assert FabricBuilder.of(fabric).add_host("h3").build() == builder.build()


@PROPERTY
@given(fabric_steps())
def test_fabrics_are_equal_whatever_the_order_they_were_built_in(steps: tuple[list[Step], list[Step]]) -> None:
    nodes, links = steps
    shuffled = random.Random(1).sample(nodes, len(nodes)), random.Random(2).sample(links, len(links))
    assert assemble(*shuffled) == assemble(nodes, links)
    assert hash(assemble(*shuffled)) == hash(assemble(nodes, links))
    assert assemble(*shuffled).to_dict() == assemble(nodes, links).to_dict()


@PROPERTY
@given(fabrics(connected=False))
def test_a_fabric_survives_json(fabric: Fabric) -> None:
    assert Fabric.from_dict(json.loads(json.dumps(fabric.to_dict()))) == fabric


@PROPERTY
@given(fabrics())
def test_fabrics_that_differ_in_a_capacity_are_not_equal(fabric: Fabric) -> None:
    content = fabric.to_dict()
    if content["links"]:
        content["links"][0]["rate_bps"] += 1
        assert Fabric.from_dict(content) != fabric


@pytest.mark.parametrize(
    "content",
    [{}, {"switches": [{}], "hosts": [], "links": []}, {"switches": 3, "hosts": [], "links": []}, {"switches": [1]}, []],
)
def test_what_to_dict_did_not_write_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(FabricError, match="fabric"):
        Fabric.from_dict(content)
