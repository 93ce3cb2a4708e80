"""Who gets which marks: guests for themselves, the operator for all; bounds, expiry, and attacks."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from agents.addresses.found import Found
from agents.guests.cookies import PERIOD_NS, Cookies
from agents.guests.desk import Desk
from agents.guests.flows import Flows
from agents.guests.marks import GUEST_MARKS, OPERATOR_ROOM, TABLE_MARKS
from agents.guests.rates import BURST, MOST_BUCKETS, PER_SECOND, Rates
from agents.guests.requests import REQUEST_MAX, encode
from agents.queues.classifier import Address
from protocol.flowmark import FlowMark

SECOND = 10**9
MARK = FlowMark(1024)
VM, OTHER, HOST, SERVER = map(ip_address, ("10.0.0.5", "10.0.0.6", "10.0.0.1", "10.0.0.9"))
WANTED = {"to": "10.0.0.9:5432", "deadline_ms": 10}


class FakeTable:
    """A table of the kernel's."""

    def __init__(self) -> None:
        self.marks: dict[Flows, tuple[int, int]] = {}

    def set(self, flows: Flows, mark: int, until_ns: int) -> None:
        self.marks[flows] = mark, until_ns

    def remove(self, flows: Flows) -> None:
        del self.marks[flows]


class Host:
    """A desk with two guests, at ports 3 and 4 of the bridge."""

    def __init__(self) -> None:
        self.table = FakeTable()
        self.found = Found(own=(HOST,), behind=(VM, OTHER), ports={VM: 3, OTHER: 4})
        self.desk = Desk(self.table, lambda: self.found, 100_000_000, bytes(32))
        self.now_ns = 100 * SECOND

    def guest(self, fields: dict[str, Any], sender: Address = VM) -> dict[str, Any]:
        """The answer to a guest that sends its cookie back, and does not ask too often."""
        self.now_ns += SECOND // PER_SECOND
        first = self.desk.of_guest(encode(fields), sender, now_ns=self.now_ns)
        if "cookie" not in first:
            return first
        return self.desk.of_guest(encode({**fields, **first}), sender, now_ns=self.now_ns)

    def operator(self, fields: dict[str, Any]) -> dict[str, Any]:
        return self.desk.of_operator(encode(fields), now_ns=self.now_ns)


@pytest.fixture
def host() -> Host:
    return Host()


class TestGuests:
    """A guest speaks for its own address, once it has shown that it is its own."""

    def test_a_guest_marks_its_own_flows_at_its_own_port_of_the_bridge(self, host: Host) -> None:
        answer = host.guest({**WANTED, "size_bytes": 20_000})
        assert answer["marked"] == {
            "from": "10.0.0.5", "to": "10.0.0.9:5432", "for_ms": 10_000, "deadline_ms": 10, "size_bytes": 20_000,
        }  # fmt: skip
        assert host.table.marks == {Flows(VM, SERVER, 0, 5432, 3): (10 << 20 | 20, host.now_ns + 10 * SECOND)}

    def test_without_its_cookie_nobody_gets_more_than_a_cookie_shorter_than_a_request_to_mark(self, host: Host) -> None:
        for cookie in ("", "00" * 8, host.desk._cookies.make(OTHER, host.now_ns), "\ud800"):
            data = encode({"to": "1.1.1.1", "size_bytes": 1, "cookie": cookie})
            answer = host.desk.of_guest(data, VM, now_ns=host.now_ns)
            assert list(answer) == ["cookie"]
            assert len(encode(answer)) < len(encode({"to": "1.1.1.1", "size_bytes": 1}))
        assert not host.table.marks and host.desk.challenged == 4

    def test_a_zone_makes_no_other_flows_of_those_that_the_operator_has_marked(self, host: Host) -> None:
        """The kernel's table has no zones: a guest's mark for fd00::9%x would take the place of the one for fd00::9."""
        vm = ip_address("fd00::5")
        host.found = Found(behind=(vm,), ports={vm: 3})
        assert "marked" in host.operator({"from": "fd00::5", "to": "fd00::9", "size_bytes": 5_000_000})
        assert host.guest({"to": "fd00::9", "size_bytes": 1}, vm)["refused"] == "held"
        assert host.guest({"to": "fd00::9%x", "size_bytes": 1}, vm)["refused"] == "malformed"
        assert len({flows.key() for flows in host.table.marks}) == len(host.table.marks) == 1

    @pytest.mark.parametrize("data", [b"", b"{}", b"nonsense", b"[" * 1024, b'{"a":"' + b"b" * 2000])
    def test_nonsense_gets_at_most_three_times_its_bytes_and_is_counted(self, host: Host, data: bytes) -> None:
        answer = host.desk.of_guest(data, VM, now_ns=host.now_ns)
        assert not answer or len(encode(answer)) <= 3 * len(data)
        assert host.desk.challenged + sum(host.desk.refused.values()) == 1

    def test_the_shortest_requests_are_answered(self, host: Host) -> None:
        assert "held" in host.guest({"do": "status"})
        assert "why" in host.desk.of_guest(b"mark my flows to 10.0.0.9 please", VM, now_ns=host.now_ns)

    def test_a_cookie_is_good_for_a_minute_or_two_and_one_address(self) -> None:
        cookies = Cookies(bytes(32))
        made = cookies.make(VM, 5 * PERIOD_NS)
        assert cookies.valid(made, VM, 7 * PERIOD_NS - 1) and not cookies.valid(made, VM, 7 * PERIOD_NS)
        assert not cookies.valid(made, OTHER, 5 * PERIOD_NS) and not Cookies(b"1" * 32).valid(made, VM, 5 * PERIOD_NS)

    @pytest.mark.parametrize(
        ("cause", "fields", "sender"),
        [
            ("foreign", {**WANTED, "from": "10.0.0.6"}, VM),
            ("foreign", {"do": "unmark", "from": "10.0.0.6", "to": "10.0.0.9"}, VM),
            ("foreign", {"do": "status", "from": "10.0.0.6"}, VM),
            ("unknown", WANTED, SERVER),
            ("unknown", WANTED, HOST),
            ("link", {**WANTED, "size_bytes": 10**6}, VM),
            ("absent", {"do": "unmark", "to": "10.0.0.9"}, VM),
            ("malformed", {"to": "fd00::9", "deadline_ms": 1}, VM),
            ("malformed", {"to": "10.0.0.9"}, VM),
        ],
    )  # fmt: skip
    def test_what_is_refused_is_told_and_counted(self, host: Host, cause: str, fields: dict[str, Any], sender: Address) -> None:
        answer = host.guest(fields, sender)
        assert answer["refused"] == cause and answer["why"]
        assert host.operator({"do": "status"})["refusals"] == {cause: 1}
        assert not host.table.marks

    def test_a_guest_has_so_many_marks_by_whatever_address_and_others_have_theirs(self, host: Host) -> None:
        second = ip_address("10.0.0.7")
        host.found = Found(ports={VM: 3, second: 3, OTHER: 4})
        answers = [host.guest({**WANTED, "to": f"10.1.0.{n}"}, (VM, second)[n % 2]) for n in range(1, GUEST_MARKS + 2)]
        assert [answer.get("refused") for answer in answers] == [None] * GUEST_MARKS + ["full"]
        assert "marked" in host.guest({**WANTED, "to": "10.1.0.1", "deadline_ms": 9}, second), "one of its own, anew"
        assert "marked" in host.guest(WANTED, OTHER)

    def test_guests_leave_room_for_the_operator(self, host: Host) -> None:
        most = TABLE_MARKS - OPERATOR_ROOM
        for number in range(most):
            host.desk.marks.mark(Flows(VM, SERVER, 1 + number % 60_000), MARK, 2**60, 100 + number // GUEST_MARKS)
        assert host.guest(WANTED)["refused"] == "full"
        for number in range(OPERATOR_ROOM):
            assert "marked" in host.operator({**WANTED, "from": f"10.0.0.5:{number + 1}"})
        assert host.operator({**WANTED, "from": "10.0.0.5:9999"})["refused"] == "full"
        assert len(host.table.marks) == TABLE_MARKS

    def test_too_many_requests_of_a_guest_are_refused_and_another_is_served(self, host: Host) -> None:
        cookies = {one: host.desk._cookies.make(one, host.now_ns) for one in (VM, OTHER)}

        def ask(one: Address) -> dict[str, Any]:
            return host.desk.of_guest(encode({**WANTED, "cookie": cookies[one]}), one, now_ns=host.now_ns)

        assert sum("marked" in ask(VM) for _ in range(1000)) == BURST
        assert ask(VM)["refused"] == "rate" and "marked" in ask(OTHER)
        host.now_ns += SECOND
        assert sum("marked" in ask(VM) for _ in range(1000)) == PER_SECOND


class TestOperator:
    """The operator marks any guest's flows, and a guest does not change that."""

    def test_a_known_guests_mark_is_bound_to_its_port_and_an_unknown_ones_is_not(self, host: Host) -> None:
        assert "marked" in host.operator({**WANTED, "from": "10.0.0.5:80"})
        assert "marked" in host.operator({**WANTED, "from": "10.0.0.77"})
        assert {flows.bridge_port for flows in host.table.marks} == {3, 0}
        host.found = Found(ports={ip_address("10.0.0.77"): 9})
        assert "unmarked" in host.operator({"do": "unmark", "from": "10.0.0.77", "to": "10.0.0.9:5432"})

    @pytest.mark.parametrize("ports", [{}, {VM: 7}])
    def test_what_was_marked_is_unmarked_once_the_guest_has_moved_or_is_not_known(
        self, host: Host, ports: dict[Address, int]
    ) -> None:
        host.operator({**WANTED, "from": "10.0.0.5", "for_ms": 3_600_000})
        host.operator({**WANTED, "from": "10.0.0.5:80"})
        host.found = Found(ports=ports)
        answer = host.operator({"do": "unmark", "from": "10.0.0.5", "to": "10.0.0.9:5432"})
        assert answer["unmarked"]["for_ms"] == 3_600_000
        assert list(host.table.marks) == [Flows(VM, SERVER, 80, 5432, 3)]

    def test_it_must_say_whose_flows_and_not_the_hosts_own(self, host: Host) -> None:
        assert host.operator(WANTED)["why"].startswith("from: missing")
        assert host.operator({**WANTED, "from": "10.0.0.1"})["refused"] == "foreign"

    def test_a_guest_neither_replaces_nor_removes_the_operators_mark(self, host: Host) -> None:
        host.operator({**WANTED, "from": "10.0.0.5", "size_bytes": 1024})
        assert host.guest(WANTED)["refused"] == "held"
        assert host.guest({"do": "unmark", "to": "10.0.0.9:5432"})["refused"] == "held"
        assert [mark for mark, _ in host.table.marks.values()] == [10 << 20 | 1]

    def test_the_operator_takes_a_guests_mark_away(self, host: Host) -> None:
        host.guest(WANTED)
        assert "unmarked" in host.operator({"do": "unmark", "from": "10.0.0.5", "to": "10.0.0.9:5432"})
        assert not host.table.marks and host.operator({"do": "status"})["removed"] == 1


class TestExpiry:
    """A mark ends by itself, and one that is marked anew lives on."""

    def test_a_mark_leaves_the_table_at_its_end_and_is_counted(self, host: Host) -> None:
        host.guest({**WANTED, "for_ms": 1000})
        marks = host.desk.marks
        assert marks.next_end_ns() == host.now_ns + SECOND
        marks.expire(host.now_ns + SECOND - 1)
        assert len(host.table.marks) == 1
        marks.expire(host.now_ns + SECOND)
        assert not host.table.marks and marks.next_end_ns() is None
        told = host.operator({"do": "status"})
        assert (told["held"], told["marked"], told["expired"], told["marks"]) == (0, 1, 1, [])

    def test_what_is_marked_anew_has_the_later_end_and_counts_once(self, host: Host) -> None:
        for _ in range(3):
            host.guest({**WANTED, "for_ms": 1000})
        host.desk.marks.expire(host.now_ns + SECOND - 1)
        assert len(host.table.marks) == 1 and host.desk.marks.expired == 0
        host.desk.marks.expire(host.now_ns + SECOND)
        assert not host.table.marks and host.desk.marks.expired == 1

    def test_marking_anew_for_ever_needs_no_more_memory(self, host: Host) -> None:
        flows = Flows(VM, SERVER)
        for number in range(5 * TABLE_MARKS):
            host.desk.marks.mark(flows, MARK, number + 1, 3)
        assert len(host.desk.marks._ends) <= 2 * TABLE_MARKS + 1
        host.desk.marks.expire(10**9)
        assert not host.table.marks


def test_a_guest_sees_its_own_marks_and_no_counts(host: Host) -> None:
    host.guest(WANTED)
    host.guest(WANTED, OTHER)
    told = host.guest({"do": "status"})
    assert told["held"] == 1 and [one["from"] for one in told["marks"]] == ["10.0.0.5"] and "refusals" not in told
    assert host.operator({"do": "status"})["held"] == 2


def test_the_longest_status_fits_into_a_frame(host: Host) -> None:
    long = ip_address("fd00:1111:2222:3333:4444:5555:6666:7777")
    host.found = Found(ports={long: 3})
    for number in range(GUEST_MARKS):
        fields = {"from": f"[{long}]:{10_000 + number}", "to": f"[{long}]:10000", "deadline_ms": 4094, "for_ms": 3_600_000}
        assert "marked" in host.guest(fields, long)
    assert len(encode(host.guest({"do": "status"}, long))) <= 1432 and REQUEST_MAX < 1432


def test_buckets_are_bounded() -> None:
    rates = Rates()
    assert all(rates.take(key, SECOND) for key in range(MOST_BUCKETS))
    assert not rates.take(MOST_BUCKETS, SECOND)
    assert rates.take(MOST_BUCKETS, 10 * SECOND) and len(rates._full_ns) == 1


def test_a_guest_that_has_a_bucket_is_served_while_there_is_room_for_no_other() -> None:
    rates = Rates()
    assert all(rates.take(key, SECOND) for key in range(MOST_BUCKETS))
    assert rates.take(0, SECOND)


def test_a_bucket_makes_room_as_soon_as_it_is_full_again() -> None:
    rates, full_ns = Rates(), SECOND + SECOND // PER_SECOND
    assert all(rates.take(key, SECOND) for key in range(MOST_BUCKETS))
    assert not rates.take(MOST_BUCKETS, full_ns - 1)
    assert rates.take(MOST_BUCKETS, full_ns)


def test_a_guest_that_asked_for_nothing_for_long_may_ask_as_often_as_a_new_one() -> None:
    rates = Rates()
    rates.take(1, SECOND)
    for key in (1, 2):
        assert sum(rates.take(key, 100 * SECOND) for _ in range(2 * BURST)) == BURST
