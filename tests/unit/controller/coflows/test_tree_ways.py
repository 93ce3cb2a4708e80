"""The ways between hosts, by the names that applications give them."""

from __future__ import annotations

import pytest

from controller.coflows import tree_ways
from controller.coflows.tree_ways import USUAL_BPS, TreeWays
from controller.members.registry import Members
from topology.fabric import DirectedLink

UPLINK = DirectedLink("s1", "s2")


class Tree:
    """h1 and h2 are known by ports; one link joins them."""

    def __init__(self, hosts: dict[int, str]) -> None:
        self.hosts = hosts

    def inner_links(self, source: str, destination: str) -> tuple[DirectedLink, ...]:
        return (UPLINK,) if (source, destination) == ("s1:p", "s2:p") else ()

    def capacity_bps(self, link: DirectedLink) -> int:
        return {UPLINK: 7}[link]


class TestTreeWays:
    def setup_method(self) -> None:
        self.members = Members()
        self.tree: Tree | None = None
        self.ways = TreeWays(self.members, lambda: self.tree)

    def join(self, number: int) -> int:
        mac = bytes([2, 0, 0, 0, 0, number])
        member = self.members.register(mac, f"h{number}", 10**8 * number, (), "tbf", "1", 0)
        return member.node

    def test_before_a_fabric_is_known_there_are_no_links_between_switches(self) -> None:
        self.ways.look()
        assert (self.ways.inner_links("h1", "h2"), self.ways.host_bps("h1")) == ((), USUAL_BPS)

    def test_a_member_is_found_by_its_name_and_by_the_fabrics(self) -> None:
        self.tree = Tree({self.join(1): "s1:p", self.join(2): "s2:p"})
        self.ways.look()
        assert self.ways.inner_links("h1", "h2") == self.ways.inner_links("h1", "s2:p") == (UPLINK,)
        assert self.ways.inner_links("h1", "elsewhere") == ()
        assert self.ways.link_bps(UPLINK) == 7
        assert [self.ways.host_bps(host) for host in ("h1", "h2", "elsewhere")] == [10**8, 2 * 10**8, 2 * 10**8]

    def test_a_host_is_called_as_its_member(self) -> None:
        self.tree = Tree({self.join(1): "s1:p"})
        self.ways.look()
        assert [self.ways.called(name) for name in ("h1", "s1:p", "elsewhere")] == ["h1", "h1", "elsewhere"]

    def test_names_that_there_are_not_are_not_kept_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tree_ways, "MOST_NAMES", 4)
        self.tree = Tree({})
        self.ways.look()
        for number in range(20):
            self.ways.inner_links(f"a{number}", f"b{number}")
            assert len(self.ways._places) <= 5

    def test_a_look_tells_whether_a_way_that_was_asked_for_may_be_another(self) -> None:
        hosts: dict[int, str] = {}
        self.tree = Tree(hosts)
        assert self.ways.look()
        assert not self.ways.look()
        assert self.ways.inner_links("h1", "h2") == ()
        hosts[self.join(1)] = "s1:p"
        assert self.ways.look(), "h1 has a place now"
        self.ways.inner_links("h1", "h2")
        hosts[self.join(3)] = "s3:p"
        assert not self.ways.look(), "nobody asked for h3"
        self.tree = Tree(dict(hosts))
        assert self.ways.look(), "another tree"
