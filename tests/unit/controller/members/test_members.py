"""The registry of hosts with an agent."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.members.registry import FIRST_NODE, Member, Members
from controller.policies.base import Slot
from controller.slots.slot_events import Tallies

A, B = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def join(members: Members, mac: bytes, *addresses: str, now: int = 0) -> Member:
    return members.register(mac, mac.hex(), 10**8, tuple(map(ip_address, addresses)), "TBF", "0", now)


def test_ids_are_distinct_and_kept_over_a_departure() -> None:
    members = Members()
    a, b = join(members, A, "10.0.0.1"), join(members, B, "10.0.0.2")
    assert {a.node, b.node} == {FIRST_NODE, FIRST_NODE + 1}
    members.leave(a.node)
    assert members.get(a.node) is None
    assert join(members, A, "10.0.0.1").node == a.node


def test_the_version_grows_with_every_change_of_the_directory_and_only_then() -> None:
    members = Members()
    seen = [members.version]
    join(members, A, "10.0.0.1")
    seen.append(members.version)
    join(members, A, "10.0.0.1", "10.0.0.7")
    seen.append(members.version)
    members.leave(FIRST_NODE)
    seen.append(members.version)
    assert seen == sorted(set(seen))
    join(members, A, "10.0.0.1")
    before = members.version
    join(members, A, "10.0.0.1", now=5)
    assert members.version == before


def owners(members: Members, address: str) -> list[int]:
    return [node for node, addresses in members.directory() if ip_address(address) in addresses]


class TestWhoHasAnAddress:
    """One host at a time: nobody takes over what a live member holds."""

    def test_a_live_members_address_is_refused_to_another_that_gets_its_other_addresses(self) -> None:
        members = Members()
        a = join(members, A, "10.0.0.1", "10.0.0.9")
        b = join(members, B, "10.0.0.2", "10.0.0.9")
        assert owners(members, "10.0.0.9") == [a.node] and owners(members, "10.0.0.2") == [b.node]
        assert members.refused(b) == {ip_address("10.0.0.9"): a} and not members.refused(a)

    def test_it_moves_when_its_host_claims_it_no_more(self) -> None:
        members = Members()
        join(members, A, "10.0.0.1", "10.0.0.9")
        b, version = join(members, B, "10.0.0.9"), members.version
        join(members, A, "10.0.0.1")
        assert owners(members, "10.0.0.9") == [b.node] and not members.refused(b) and members.version > version

    def test_it_moves_when_its_host_leaves_and_does_not_come_back_with_it(self) -> None:
        members = Members()
        a, b = join(members, A, "10.0.0.9"), join(members, B, "10.0.0.9")
        members.leave(a.node)
        assert owners(members, "10.0.0.9") == [b.node]
        assert members.refused(join(members, A, "10.0.0.9")) == {ip_address("10.0.0.9"): b}

    def test_a_host_that_claims_and_gives_up_another_ones_address_changes_nothing(self) -> None:
        members = Members()
        a = join(members, A, "10.0.0.9")
        join(members, B, "10.0.0.2", "10.0.0.9")
        join(members, B, "10.0.0.2")
        assert owners(members, "10.0.0.9") == [a.node]

    @given(st.lists(st.tuples(st.integers(1, 4), st.none() | st.sets(st.integers(1, 5))), max_size=30))
    def test_whatever_hosts_claim_each_address_has_one_host_that_claims_it(
        self, steps: list[tuple[int, set[int] | None]]
    ) -> None:
        members, nodes = Members(), dict[int, int]()
        for host, wanted in steps:
            holders = {last: owners(members, f"10.0.0.{last}") for last in range(1, 6)}
            if wanted is None:
                members.leave(nodes.get(host, 0))
            else:
                nodes[host] = join(members, bytes((2, 0, 0, 0, 0, host)), *(f"10.0.0.{last}" for last in wanted)).node
            live = {member.node: {int(a) & 0xFF for a in member.claimed} for member in members.present()}
            for last in range(1, 6):
                now = owners(members, f"10.0.0.{last}")
                assert len(now) == bool([node for node, wants in live.items() if last in wants])
                if holders[last] and last in live.get(holders[last][0], ()):
                    assert now == holders[last]


def test_the_directory_is_no_larger_than_what_hosts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.members.registry.DIRECTORY_ADDRESSES", 3)
    members = Members()
    a, b = join(members, A, "10.0.0.1", "10.0.0.2"), join(members, B, "10.0.0.3", "10.0.0.4")
    assert [(node, len(addresses)) for node, addresses in members.directory()] == [(a.node, 2), (b.node, 1)]
    assert members.left_out() == 1


def test_the_silent_are_found() -> None:
    members = Members()
    join(members, A, "10.0.0.1", now=0)
    b = join(members, B, "10.0.0.2", now=0)
    b.figures.last_heard_ns = 90
    silent, earliest_ns = members.silent(100, 50)
    assert [m.mac for m in silent] == [A] and earliest_ns == 90
    b.figures.last_heard_ns = 20
    assert members.silent(100, 100) == ([], 0)


def test_a_slot_is_acknowledged_once_or_lost() -> None:
    tallies = Tallies()
    for number, start_ns in ((1, 100), (2, 200), (2, 150)):
        tallies.granted(Slot(number, 16, 17, start_ns, start_ns + 50, 1500, 0, 0), start_ns + 50, 0)
    assert tallies.awaited(1) == (Slot(1, 16, 17, 100, 150, 1500, 0, 0), 0)
    for _ in range(2):
        tallies.opened(1, 110, late=False)
    assert tallies.awaited(1) is None
    tallies.lost(tallies.overdue(1_000))
    assert (tallies.slots, tallies.acks, tallies.lost_slots) == (2, 1, 1)


class TestReservedIds:
    """Under a new leader hosts have the ids that they had under the one before: their queues are known by these."""

    def test_a_host_gets_its_id_again_and_nobody_else_does(self) -> None:
        members = Members()
        members.reserve({b"\x02\0\0\0\0\x02": 17, b"\x02\0\0\0\0\x01": 21})
        ids = [
            members.register(bytes([2, 0, 0, 0, 0, last]), "h", 1, (), "tbf", "1", 0).node for last in (3, 1, 2, 4)
        ]
        assert ids == [22, 21, 17, 23]

    def test_without_reserved_ids_the_first_host_has_the_first_id(self) -> None:
        members = Members()
        members.reserve({})
        assert members.register(b"\x02\0\0\0\0\x01", "h", 1, (), "tbf", "1", 0).node == 16
