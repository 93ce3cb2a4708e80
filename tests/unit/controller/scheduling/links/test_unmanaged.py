"""What hosts without an agent put on links, and what is taken off for it."""

from __future__ import annotations

from controller.scheduling.links.unmanaged import Reading, Unmanaged

SECOND = 10**9
MBIT = 10**6
LINK = ("s1", "h6")


def reading(carried: float, members: float, others: float, capacity: float = 100) -> Reading:
    return Reading(*(int(mbps * MBIT) for mbps in (capacity, carried, members, others)))


class Readings:
    """Readings of one link, four a second."""

    def __init__(self) -> None:
        self.unmanaged: Unmanaged[tuple[str, str]] = Unmanaged()
        self.now_ns = 0
        self.changes = 0

    def read(self, *readings: Reading) -> float:
        """What is taken after these, in Mbit/s."""
        for one in readings:
            self.now_ns += SECOND // 4
            self.changes += self.unmanaged.read({LINK: one}, self.now_ns)
        return self.unmanaged.taken_bps.get(LINK, 0) / MBIT


def test_what_others_send_into_a_link_with_room_is_taken_off_after_two_readings() -> None:
    readings = Readings()
    assert readings.read(reading(90, 60, 30)) == 0
    assert readings.read(reading(90, 60, 30)) == 30


def test_a_full_link_whose_drops_nobody_counts_is_relieved_at_once_and_then_read_exactly() -> None:
    readings = Readings()
    full = reading(100, 98.5, 30)
    assert readings.read(full, full) == 30
    elsewhere = reading(100, 98.5, 300)
    readings = Readings()
    assert readings.read(elsewhere, elsewhere) == 50
    assert readings.read(*[reading(55, 50, 300)] * 8) == 5


def test_nothing_is_taken_while_every_host_is_a_member() -> None:
    assert Readings().read(*[reading(100, 80, 0)] * 9) == 0


def test_members_small_flows_and_acknowledgements_are_not_taken_for_others() -> None:
    assert Readings().read(*[reading(98.5, 98.5, 30)] * 9) == 0


def test_what_members_sent_and_the_link_did_not_carry_is_nothing_of_others() -> None:
    assert reading(60, 70, 30).estimate_bps == 0


def test_a_little_is_left_to_the_headroom() -> None:
    assert Readings().read(*[reading(80, 78.5, 1.5)] * 9) == 0


def test_a_single_odd_reading_takes_nothing() -> None:
    readings = Readings()
    assert readings.read(reading(90, 90, 30), reading(90, 50, 30), reading(90, 90, 30)) == 0
    assert readings.changes == 0


def test_what_wavers_by_a_hundredth_of_the_link_changes_nothing_after_a_second() -> None:
    readings = Readings()
    readings.read(*[reading(90, 90 - others, 40) for others in (30, 30.6, 30.2, 30.9)])
    before = readings.changes
    readings.read(*[reading(90, 90 - others, 40) for others in (30, 30.6, 30.2, 30.9) * 8])
    assert readings.changes == before


def test_what_others_give_up_is_given_back_within_two_seconds() -> None:
    readings = Readings()
    readings.read(*[reading(90, 60, 30)] * 4)
    assert readings.read(*[reading(60, 60, 1)] * 3) == 30
    assert readings.read(*[reading(60, 60, 1)] * 5) == 0


def test_the_most_of_the_last_second_counts_until_it_is_over() -> None:
    readings = Readings()
    readings.read(*[reading(90, 60, 30)] * 2)
    assert readings.read(*[reading(60, 60, 1)] * 4) == 30
    assert readings.read(reading(60, 60, 1)) == 0


def test_a_link_that_is_read_no_more_is_given_back() -> None:
    readings = Readings()
    readings.read(*[reading(90, 60, 30)] * 4)
    for _ in range(8):
        readings.now_ns += SECOND // 4
        readings.unmanaged.read({}, readings.now_ns)
    assert readings.unmanaged.taken_bps == {}


def test_members_keep_something_of_a_link_that_others_fill() -> None:
    assert Readings().read(*[reading(100, 0, 400)] * 9) <= 95


def test_a_full_link_is_relieved_only_where_it_carries_half_a_percent_more_than_members_sent() -> None:
    assert Readings().read(*[reading(100, 99.6, 30)] * 2) == 0
    assert Readings().read(*[reading(100, 99.5, 30)] * 2) == 30


def test_a_link_is_full_from_97_percent_on() -> None:
    assert Readings().read(*[reading(97, 90, 30)] * 2) == 30
    assert Readings().read(*[reading(96.9, 90, 30)] * 2) == 7


def test_others_are_taken_off_from_two_percent_of_the_link_on() -> None:
    assert Readings().read(*[reading(80, 78, 9)] * 2) == 2


def test_what_others_take_less_is_given_back_by_two_percent_at_least() -> None:
    for less, left in ((29, 30), (28, 28)):
        readings = Readings()
        readings.read(*[reading(90, 60, 30)] * 4)
        assert readings.read(*[reading(90, 90 - less, 30)] * 6) == left


def test_a_link_that_becomes_faster_is_measured_by_its_new_capacity() -> None:
    readings = Readings()
    assert readings.read(*[reading(60, 50, 10)] * 2) == 10
    assert readings.read(*[reading(60, 50, 10, capacity=1000)] * 2) == 0


def test_a_link_without_others_is_forgotten() -> None:
    readings = Readings()
    readings.read(*[reading(90, 60, 30)] * 4, *[reading(60, 60, 0)] * 9)
    assert not readings.unmanaged._tracks
