"""What the coordinator warns of: hosts without an agent, rates above links, addresses that nobody knows."""

from __future__ import annotations

import time
from ipaddress import ip_address
from typing import Any

import pytest

from cli.machine.doctor_hosts import findings
from controller.config.settings import CoordinatorSettings
from controller.members.host_links import MOST_HOSTS, REMEMBERED_NS, HostLinks
from controller.members.membership import Membership
from controller.members.part import Parts
from controller.members.registry import Figures, Member, Members
from controller.scheduling.network import FabricNetwork
from protocol.bodies.host_link import HostLink
from protocol.messages import GateKind, Register
from topology import shapes
from topology.fabric import DirectedLink
from topology.paths import Routes
from topology.spanning_tree import compute

SECOND = 1_000_000_000
MBIT = 1_000_000
OWN = bytes.fromhex("0200000000fe")


class Fabric:
    """Hosts 16, 17 ... at one switch, with links of 100 Mbit/s."""

    def __init__(self, *members: str) -> None:
        self.hosts = {16 + at: name for at, name in enumerate(members)}

    def access(self, node: int) -> DirectedLink | None:
        return DirectedLink(self.hosts[node], "s1") if node in self.hosts else None

    def capacity_bps(self, link: DirectedLink) -> int:
        return 100 * MBIT


class World:
    """h1 and h2 are members; h3 and the coordinator's own port are not."""

    def __init__(self) -> None:
        self.part = HostLinks(lambda: Fabric("h1", "h2"), MBIT, OWN)
        hosts = [{"name": name, "mac": None} for name in ("h1", "h2", "h3")] + [{"name": "c", "mac": OWN.hex(":")}]
        self.part.documents["fabric"]({"fabric": {"hosts": hosts}}, 0)
        self.members = {
            node: Member(node, f"h{node - 15}", bytes(6), 100 * MBIT, (), "tbf", "1", Figures()) for node in (16, 17)
        }

    def link(self, node: int, *, received: int = 0, unclassified: int = 0, **fields: int) -> list[str]:
        """A report of two seconds in which a host received and sent unclassified so many Mbit/s."""
        mbyte = MBIT // 8 * 2
        left_out, stations = fields.get("left_out", 0), fields.get("stations", 0)
        message = HostLink(fields.get("own", 0), 2 * SECOND, received * mbyte, unclassified * mbyte, left_out, stations)
        self.part.handlers[HostLink](self.members[node], message, 0)
        return self.part.warnings_of(node)

    def ports(self, now_ns: int, **mbps: int) -> list[str]:
        links = [{"source": name, "target": "s1", "load_bps": rate * MBIT, "dropped": 0} for name, rate in mbps.items()]
        self.part.documents["ports"]({"links": links}, now_ns)
        return self.part.warnings()


class TestAMember:
    """Its own link and addresses."""

    def test_a_link_that_receives_what_is_addressed_to_it_has_no_warning(self) -> None:
        world = World()
        assert [world.link(16, own=1000 * MBIT, received=90, unclassified=1) for _ in range(3)] == [[], [], []]

    @pytest.mark.parametrize(("own", "rate"), [(10 * MBIT, "10Mbit"), (0, "")])
    def test_a_rate_above_the_links_own(self, own: int, rate: str) -> None:
        lines = World().link(16, own=own)
        assert len(lines) == bool(rate) and (not rate or f"--rate {rate}" in lines[0])

    def test_a_rate_above_what_the_fabric_has(self) -> None:
        world = World()
        world.members[16].rate_bps = 1000 * MBIT
        (line,) = world.link(16, own=1000 * MBIT)
        assert "1Gbit" in line and "100Mbit" in line and "fabric" in line

    def test_addresses_that_are_left_out_and_stations_without_a_known_one(self) -> None:
        lines = World().link(16, left_out=3, stations=2)
        assert len(lines) == 2 and all("; " in line for line in lines) and "--address" in lines[1]

    def test_traffic_that_comes_in_and_nobody_classified_is_for_addresses_that_its_agent_does_not_know(self) -> None:
        world = World()
        shown = []
        for _ in range(4):
            world.link(16, unclassified=60)
            shown.append(world.link(17, received=61))
        assert [len(lines) for lines in shown] == [0, 0, 1, 1] and "--address" in shown[-1][0]
        for _ in range(2):
            world.link(16)
            last = world.link(17)
        assert not last

    def test_what_large_flows_brought_is_classified(self) -> None:
        world = World()
        for _ in range(5):
            world.link(16, unclassified=60)
            world.part.reported(16, {17: 60 * MBIT // 8 * 2}, frozenset())
            assert not world.link(17, received=61)

    def test_what_never_left_a_member_unclassified_is_of_small_flows_or_of_hosts_without_an_agent(self) -> None:
        world = World()
        for _ in range(5):
            world.link(16, unclassified=10)
            assert not world.link(17, received=61)

    def test_what_a_member_that_left_sent_does_not_count(self) -> None:
        world = World()
        world.link(16, unclassified=60)
        world.part.left(16, 0)
        assert not any(world.link(17, received=61) for _ in range(5))

    def test_a_report_takes_as_long_among_thousands_as_among_a_few(self) -> None:
        def seconds(members: int) -> float:
            world = World()
            message = HostLink(0, 2 * SECOND, 0, 0, 0, 0)
            its = [Member(16 + at, f"h{at}", bytes(6), 100 * MBIT, (), "tbf", "1", Figures()) for at in range(members)]
            for member in its:
                world.part.handlers[HostLink](member, message, 0)
            spent = []
            for _ in range(5):
                began = time.thread_time()
                for member in its[-20:]:
                    world.part.handlers[HostLink](member, message, 0)
                spent.append(time.thread_time() - began)
            return min(spent)

        assert seconds(4_800) < 8 * seconds(20)


class TestHostsWithoutAnAgent:
    """They are shown while they send or receive."""

    def test_one_that_sends_is_shown_with_what_to_do_until_it_has_been_quiet(self) -> None:
        world = World()
        (line,) = world.ports(SECOND, h1=50, h3=40)
        assert line.startswith("h3 has no agent: it sends 40.0 Mbit/s") and "start its agent" in line
        assert world.ports(SECOND + REMEMBERED_NS // 2, h3=0)
        assert not world.ports(SECOND + REMEMBERED_NS, h3=0)

    def test_members_quiet_hosts_and_the_coordinator_are_not(self) -> None:
        assert not World().ports(SECOND, h1=90, h2=90, h3=0, c=50)

    def test_of_many_hosts_the_first_are_listed_and_the_others_counted(self) -> None:
        world = World()
        names = [f"x{number}" for number in range(20)]
        world.part.documents["fabric"]({"fabric": {"hosts": [{"name": name} for name in names]}}, 0)
        lines = world.ports(SECOND, **dict.fromkeys(names, 9))
        assert len(lines) == MOST_HOSTS + 1 and "12 more" in lines[-1]


class TestRegistration:
    """Addresses that are missing, or another member's."""

    def test_it_is_in_the_documents_of_the_fabric_and_of_the_member(self) -> None:
        members, parts, written = Members(), Parts(), list[dict[str, Any]]()
        settings = CoordinatorSettings(interface="c0", attachment="s1:c0", key_file="key", store="")  # type: ignore[arg-type]
        part = Membership(settings, members, parts, lambda *_: None, written.append)
        parts.add(part)
        for number, addresses in ((1, ("10.0.0.1",)), (2, ()), (3, ("10.0.0.1",)), (3, ("10.0.0.1",))):
            register = Register(f"h{number}", number, 10**8, tuple(map(ip_address, addresses)), GateKind.TBF, "1")
            part.register(register, bytes((2, 0, 0, 0, 0, number)), 0)
        assert parts.status()["warnings"] == [] == parts.of_member(16)["warnings"]
        (nothing,) = parts.of_member(17)["warnings"]
        assert nothing.startswith("no addresses") and "--address" in nothing
        (refused,) = parts.of_member(18)["warnings"]
        assert refused.startswith("10.0.0.1 is held by h1")
        events = [line["event"][2] for line in written if line["event"][1] == "warning"]
        assert events == ["h3 claims 10.0.0.1, which another member holds"]


def test_the_doctor_shows_a_warning_with_its_remedy() -> None:
    member = {"name": "h1", "warnings": ["it has none; give it one"]}
    found = findings({16: member}, {"warnings": ["h3 has no agent; start it"]}, None)
    assert [(one.host, one.what, one.found, one.remedy) for one in found] == [
        ("", "warning", "h3 has no agent", "start it"),
        ("h1", "warning", "it has none", "give it one"),
    ]


def test_a_host_without_an_agent_is_not_shown_for_ever_when_no_loads_come_any_more() -> None:
    world = World()
    (_, passes), = world.part.periodic
    assert world.ports(0, h3=90)
    passes(REMEMBERED_NS - 1)
    assert world.part.warnings()
    passes(REMEMBERED_NS)
    assert world.part.warnings() == []


@pytest.mark.parametrize("others", [(), ("h1",)], ids=["the only member", "another one at its port"])
def test_a_rate_above_the_fabrics_is_told_also_where_no_path_leads_from_the_member_to_another(others: tuple[str, ...]) -> None:
    fabric, members = shapes.build("star", hosts=2, rate_bps=100 * MBIT), Members()
    for at, name in enumerate(("h1", *others), 1):
        members.register(bytes((6, 0, 0, 0, 0, at)), name, 1000 * MBIT, (), "tbf", "1", 0)
    network = FabricNetwork(fabric, Routes(fabric, compute(fabric)), members.present())
    part, (member, *_) = HostLinks(lambda: network, MBIT, OWN), members.present()
    part.handlers[HostLink](member, HostLink(0, 2 * SECOND, 0, 0, 0, 0), 0)
    (line,) = part.warnings_of(member.node)
    assert line.startswith("its rate 1Gbit is above what the fabric has for its link, 100Mbit")
