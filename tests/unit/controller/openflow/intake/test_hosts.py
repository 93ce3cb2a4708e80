"""Where hosts are believed to be, when anybody can send frames with any address."""

from __future__ import annotations

from collections import Counter

from controller.openflow.intake.hosts import (
    ADDRESSES_PER_HOST,
    AGENTS_PER_PORT,
    ASK_NS,
    HELD_MAX,
    HOLD_NS,
    MOVE_NS,
    NEW_AT_ONCE,
    NEW_PER_S,
    QUESTIONS_MAX,
    QUESTIONS_PER_PORT,
    UNDERWAY_NS,
    Host,
    Hosts,
    PortRef,
    Request,
)
from protocol.units import MILLISECOND_NS

HERE, THERE = PortRef(1, 1), PortRef(2, 1)
MAC = "02:00:00:00:00:01"
HOSTS_PER_PORT = 128
SECOND_NS = 1_000 * MILLISECOND_NS


def fake(number: int) -> str:
    return f"02:ff:00:00:{number >> 8:02x}:{number & 255:02x}"


class Known:
    """Hosts, and what was told of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.told: list[tuple[str, PortRef]] = []
        self.moves: list[tuple[str, PortRef, PortRef]] = []
        self.hosts = Hosts(
            self.counts,
            lambda kind, _severity, at, _text: self.told.append((kind, at)),
            lambda host, to: self.moves.append((host.mac, host.at, to)),
            HOSTS_PER_PORT,
        )

    def at(self, mac: str = MAC) -> PortRef:
        return self.hosts.by_mac[mac].at

    def tick(self, now_ns: int, present_ns: int = 0) -> bool:
        """Where the switches have copied at once, and all was read."""
        self.hosts.applied(now_ns - MOVE_NS)
        return self.hosts.tick(now_ns, present_ns)

    def asks(self, now_ns: int) -> list[Request]:
        return list(self.hosts.requests(now_ns))


def settled() -> Known:
    known = Known()
    known.hosts.seen(HERE, MAC, 0, "10.0.0.1")
    return known


class TestMoves:
    """A MAC address moves when its old place is silent."""

    def test_one_forged_frame_takes_no_address(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        assert known.at() == HERE
        known.hosts.seen(HERE, MAC, SECOND_NS + UNDERWAY_NS, "10.0.0.1")  # the answer to the request
        known.tick(SECOND_NS + MOVE_NS)
        assert known.at() == HERE and not known.moves
        assert known.told == [("move_refused", THERE)]
        assert known.counts["moves_refused"] == 1

    def test_nor_do_many_for_a_minute(self) -> None:
        known = settled()
        for now_ns in range(SECOND_NS, 60 * SECOND_NS, 10 * MILLISECOND_NS):
            known.hosts.seen(THERE, MAC, now_ns)
            if known.asks(now_ns):
                known.hosts.seen(HERE, MAC, now_ns, "10.0.0.1")
            known.tick(now_ns)
        assert known.at() == HERE and not known.moves

    def test_the_old_place_is_asked_by_arp_and_its_frames_are_copied_meanwhile(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        assert known.hosts.by_mac[MAC].asked
        assert known.asks(SECOND_NS) == []
        assert known.asks(SECOND_NS + ASK_NS) == [Request(HERE, MAC, "10.0.0.1")]
        assert known.asks(SECOND_NS + ASK_NS + 1) == [], "not again at once"
        assert len(known.asks(SECOND_NS + 2 * ASK_NS)) == 1

    def test_a_host_that_has_moved_is_at_its_new_place_after_half_a_second(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS, "10.0.0.1")  # its gratuitous ARP
        known.hosts.seen(HERE, MAC, SECOND_NS + UNDERWAY_NS - 1)  # sent before it moved, and still on its way
        assert not known.tick(SECOND_NS + MOVE_NS - 1)
        assert known.tick(SECOND_NS + MOVE_NS)
        assert known.hosts.by_mac[MAC] == Host(MAC, THERE, ("10.0.0.1",))
        assert known.moves == [(MAC, HERE, THERE)]

    def test_silence_that_this_process_was_not_there_to_hear_moves_nothing(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        assert not known.tick(5 * SECOND_NS, present_ns=5 * SECOND_NS)
        known.hosts.seen(HERE, MAC, 5 * SECOND_NS + 1)  # had waited to be read
        assert not known.tick(6 * SECOND_NS, present_ns=5 * SECOND_NS)
        assert known.at() == HERE

    def test_while_its_switch_is_not_told_to_copy_its_frames_it_does_not_move(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.hosts.applied(SECOND_NS - 1)  # of before it was asked
        assert not known.hosts.tick(5 * SECOND_NS)
        known.hosts.applied(5 * SECOND_NS)
        assert not known.hosts.tick(5 * SECOND_NS + MOVE_NS - 1) and known.hosts.tick(5 * SECOND_NS + MOVE_NS)

    def test_while_its_switch_passes_on_more_than_its_meter_may_let_through_it_does_not_move(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.hosts.applied(SECOND_NS)
        for late_ns in range(0, 20 * MOVE_NS, MOVE_NS // 5):
            known.hosts.crowded(HERE.dpid, SECOND_NS + late_ns)
            assert not known.hosts.tick(SECOND_NS + late_ns + MOVE_NS // 5)
        known.hosts.crowded(HERE.dpid + 1, SECOND_NS + 21 * MOVE_NS)
        assert known.hosts.tick(SECOND_NS + 21 * MOVE_NS) and known.at() == THERE

    def test_while_we_have_not_read_what_its_switch_sent_it_does_not_move(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.hosts.applied(SECOND_NS)
        assert known.hosts.asked_at() == {HERE.dpid}
        for read_ns in ({}, {HERE.dpid: SECOND_NS + MOVE_NS - 1}):
            assert not known.hosts.tick(9 * SECOND_NS, 0, read_ns)
        assert known.hosts.tick(9 * SECOND_NS, 0, {HERE.dpid: SECOND_NS + MOVE_NS})

    def test_no_host_leaves_a_port_that_sends_more_than_is_read(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        assert not known.hosts.loud(THERE, SECOND_NS)
        assert known.hosts.loud(HERE, SECOND_NS) and not known.hosts.by_mac[MAC].asked
        assert not known.tick(9 * SECOND_NS) and known.at() == HERE
        assert known.told == [("move_refused", THERE)]

    def test_it_moves_back_by_the_same_rule(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.tick(SECOND_NS + MOVE_NS)
        known.hosts.seen(HERE, MAC, 2 * SECOND_NS)
        known.tick(2 * SECOND_NS + MOVE_NS)
        assert known.at() == HERE

    def test_where_the_old_port_is_down_nobody_is_asked(self) -> None:
        known = settled()
        known.hosts.gone(HERE)
        known.hosts.seen(THERE, MAC, SECOND_NS)
        assert known.at() == THERE and not known.hosts.by_mac[MAC].asked

    def test_after_a_refusal_the_same_is_not_asked_again_for_a_while(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.hosts.seen(HERE, MAC, SECOND_NS + UNDERWAY_NS)
        known.hosts.seen(THERE, MAC, SECOND_NS + UNDERWAY_NS + 1)
        assert not known.hosts.by_mac[MAC].asked
        late = SECOND_NS + UNDERWAY_NS + HOLD_NS
        known.tick(late)
        known.hosts.seen(THERE, MAC, late)
        assert known.hosts.by_mac[MAC].asked, "it may have moved since"

    def test_a_question_ends_with_the_port_that_raised_it(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.hosts.gone(THERE)
        known.tick(SECOND_NS + MOVE_NS)
        assert known.at() == HERE and not known.hosts.by_mac[MAC].asked

    def test_questions_are_bounded_by_port_and_in_total(self) -> None:
        known = Known()
        for number in range(2 * QUESTIONS_MAX):
            known.hosts.inherited(PortRef(1, number), fake(number), None)
        for number in range(2 * QUESTIONS_MAX):
            known.hosts.seen(THERE, fake(number), SECOND_NS)
        assert sum(host.asked for host in known.hosts.by_mac.values()) == QUESTIONS_PER_PORT
        for number in range(2 * QUESTIONS_MAX):
            known.hosts.seen(PortRef(3, number), fake(number), SECOND_NS)
        assert sum(host.asked for host in known.hosts.by_mac.values()) == QUESTIONS_MAX
        assert known.counts["moves_not_asked"] > 0
        assert HELD_MAX > QUESTIONS_MAX


class TestLearning:
    """A port has so many hosts, and so many new ones a second."""

    def test_a_thousand_fakes_at_once_are_not_learnt(self) -> None:
        known = Known()
        for number in range(1_024):
            known.hosts.seen(HERE, fake(number), 0)
        assert len(known.hosts.by_mac) == NEW_AT_ONCE
        assert known.counts["hosts_not_learnt"] == 1_024 - NEW_AT_ONCE
        assert ("hosts_not_learnt", HERE) in known.told

    def test_nor_are_they_in_an_hour(self) -> None:
        known = Known()
        for number in range(36_000):
            known.hosts.seen(HERE, fake(number), number * SECOND_NS // 10)
        assert len(known.hosts.by_mac) == HOSTS_PER_PORT

    def test_another_port_is_not_hindered(self) -> None:
        known = Known()
        for number in range(1_024):
            known.hosts.seen(HERE, fake(number), 0)
        known.hosts.seen(THERE, MAC, 0)
        assert known.at() == THERE

    def test_an_honest_machine_with_many_vms_is_learnt_within_seconds(self) -> None:
        known = Known()
        for now_ns in range(0, 8 * SECOND_NS, SECOND_NS // 20):
            for number in range(120):
                known.hosts.seen(HERE, fake(number), now_ns)
        assert len(known.hosts.by_mac) == 120 <= NEW_AT_ONCE + 8 * NEW_PER_S

    def test_there_is_room_for_an_agent_where_fakes_have_taken_the_rest(self) -> None:
        known = Known()
        for number in range(3_600):
            known.hosts.seen(HERE, fake(number), number * SECOND_NS)
        known.hosts.seen(HERE, MAC, 3_600 * SECOND_NS, control=True)
        assert known.hosts.by_mac[MAC].speaks_control
        for number in range(100):
            known.hosts.seen(HERE, fake(5_000 + number), (3_700 + number) * SECOND_NS, control=True)
        assert len(known.hosts.by_mac) == HOSTS_PER_PORT + AGENTS_PER_PORT

    def test_a_host_that_moves_to_a_full_port_is_forgotten_and_so_frames_to_it_are_flooded(self) -> None:
        known = settled()
        for number in range(3_600):
            known.hosts.seen(THERE, fake(number), number * SECOND_NS)
        known.hosts.seen(THERE, MAC, 3_600 * SECOND_NS)
        assert known.tick(3_600 * SECOND_NS + MOVE_NS)
        assert MAC not in known.hosts.by_mac and len(known.hosts.by_mac) == HOSTS_PER_PORT

    def test_what_is_forgotten_makes_room(self) -> None:
        known = Known()
        for number in range(200):
            known.hosts.seen(HERE, fake(number), number * SECOND_NS)
        known.hosts.idle(HERE, fake(3))
        known.hosts.seen(HERE, MAC, 300 * SECOND_NS)
        assert known.at() == HERE
        known.hosts.gone(HERE)
        assert not known.hosts.by_mac


class TestTakingOver:
    """Hosts that the switches know since an earlier application."""

    def test_it_is_known_as_it_was(self) -> None:
        known, host = Known(), Host(MAC, HERE, ("10.0.0.1", "10.0.0.2"), speaks_control=True)
        assert known.hosts.taken_over(host, 0)
        assert known.hosts.by_mac[MAC] == host

    def test_what_was_heard_of_it_since_stays_known(self) -> None:
        known = settled()
        known.hosts.taken_over(Host(MAC, HERE, ("10.0.0.9",), speaks_control=True), SECOND_NS)
        assert known.hosts.by_mac[MAC] == Host(MAC, HERE, ("10.0.0.1", "10.0.0.9"), speaks_control=True)

    def test_a_frame_elsewhere_in_the_meantime_takes_no_address(self) -> None:
        """A host that forges one while the application starts has won nothing; one that has really moved is followed."""
        known = settled()
        known.hosts.taken_over(Host(MAC, THERE, ("10.0.0.9",)), SECOND_NS)
        assert known.at() == THERE and known.hosts.by_mac[MAC].asked
        known.hosts.seen(THERE, MAC, SECOND_NS + UNDERWAY_NS)
        known.tick(SECOND_NS + MOVE_NS)
        assert known.at() == THERE and known.told == [("move_refused", HERE)]
        known = settled()
        known.hosts.taken_over(Host(MAC, THERE, ("10.0.0.9",)), SECOND_NS)
        known.tick(SECOND_NS + MOVE_NS)
        assert known.at() == HERE

    def test_a_switch_that_lies_fills_no_port(self) -> None:
        known = Known()
        for number in range(1_000):
            known.hosts.taken_over(Host(fake(number), HERE), 0)
        assert len(known.hosts.by_mac) == HOSTS_PER_PORT
        addresses = tuple(f"10.0.{number // 256}.{number % 256}" for number in range(1_000))
        known.hosts.taken_over(Host(MAC, HERE, addresses, speaks_control=True), 0)
        assert len(known.hosts.by_mac[MAC].addresses) == ADDRESSES_PER_HOST

    def test_it_moves_as_any_other(self) -> None:
        known = Known()
        known.hosts.taken_over(Host(MAC, HERE, ("10.0.0.1",)), 0)
        known.hosts.seen(THERE, MAC, SECOND_NS)
        assert known.at() == HERE and known.hosts.by_mac[MAC].asked
        known.tick(SECOND_NS + MOVE_NS)
        assert known.at() == THERE

    def test_an_address_belongs_to_whom_used_it_last_wherever_that_host_has_moved(self) -> None:
        known = settled()
        known.hosts.seen(THERE, MAC, SECOND_NS)
        known.tick(SECOND_NS + MOVE_NS)
        known.hosts.seen(HERE, fake(1), 2 * SECOND_NS, "10.0.0.1")
        assert known.hosts.by_mac[MAC].addresses == () and known.hosts.by_mac[fake(1)].addresses == ("10.0.0.1",)
        known.hosts.idle(HERE, fake(1))
        known.hosts.seen(THERE, MAC, 3 * SECOND_NS, "10.0.0.1")
        assert known.hosts.by_mac[MAC].addresses == ("10.0.0.1",)
