"""The registry of hosts with an agent."""

from ipaddress import ip_address

from controller.members.registry import FIRST_NODE, Member, Members
from controller.policies.base import Slot
from controller.scheduling.slot_events import Tallies

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


def test_a_migrated_address_belongs_to_whom_claimed_it_last() -> None:
    members = Members()
    join(members, A, "10.0.0.1", "10.0.0.9")
    b = join(members, B, "10.0.0.9")
    owners = [node for node, addresses in members.directory() if ip_address("10.0.0.9") in addresses]
    assert owners == [b.node]


def test_the_silent_are_found() -> None:
    members = Members()
    join(members, A, "10.0.0.1", now=0)
    b = join(members, B, "10.0.0.2", now=0)
    b.last_heard_ns = 90
    assert [m.mac for m in members.silent(100, 50)] == [A]


def test_a_slot_is_acknowledged_once_or_lost() -> None:
    tallies = Tallies()
    for number, start_ns in ((1, 100), (2, 200), (2, 150)):
        tallies.granted(Slot(number, 16, 17, start_ns, start_ns + 50, 1500, 0, 0), start_ns + 50, 0)
    assert tallies.awaited(1) == 100
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

    def test_nothing_reserved_changes_nothing(self) -> None:
        members = Members()
        members.reserve({})
        assert members.register(b"\x02\0\0\0\0\x01", "h", 1, (), "tbf", "1", 0).node == 16
