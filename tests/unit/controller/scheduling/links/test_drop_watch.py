"""Links that drop below what they are believed to carry are named once an episode."""

from __future__ import annotations

from controller.scheduling.links.drop_watch import DropWatch
from topology.capacity import PORT_SPEED, Capacity
from topology.fabric import DirectedLink

SECOND = 10**9
MBIT = 10**6
LINK = DirectedLink("a1", "t3")
BELIEVED = Capacity(10_000 * MBIT, PORT_SPEED)


class Watched:
    def __init__(self) -> None:
        self.watch = DropWatch()
        self.now_ns = 0

    def lines(self, *readings: tuple[int, int], believed: Capacity = BELIEVED) -> list[str]:
        """What is told of readings (Mbit/s carried, packets dropped), one a second."""
        found = []
        for mbps, dropped in readings:
            self.now_ns += SECOND
            line = self.watch.read(LINK, mbps * MBIT, dropped, believed, "a1-t3", self.now_ns)
            found += [] if line is None else [line]
        return found


def test_it_names_the_port_the_rate_and_what_was_believed_once() -> None:
    assert Watched().lines(*[(148, 90), (150, 80), (149, 70)] * 20) == [
        "port a1-t3 of switch a1 drops packets towards t3 at 150.0 Mbit/s, and is believed to carry 10Gbit (port speed);"
        " give the link's rate in the fabric file"
    ]


def test_a_burst_that_overruns_a_buffer_is_none() -> None:
    assert Watched().lines(*[(10, 0), (30, 5), (30, 5), (10, 0)] * 5) == []


def test_a_full_link_may_drop() -> None:
    assert Watched().lines(*[(95, 90)] * 9, believed=Capacity(100 * MBIT, PORT_SPEED)) == []


def test_a_link_may_drop_from_nine_tenths_of_what_it_is_believed_to_carry_on() -> None:
    believed = Capacity(100 * MBIT, PORT_SPEED)
    assert Watched().lines(*[(90, 9)] * 9, believed=believed) == []
    assert len(Watched().lines(*[(89, 9)] * 9, believed=believed)) == 1


def test_it_is_named_at_the_third_reading_in_a_row() -> None:
    watched = Watched()
    assert watched.lines((150, 9), (150, 9), (9_500, 9), (150, 9), (150, 9)) == [], "it was full in between"
    assert len(watched.lines((150, 9))) == 1


def test_after_ten_quiet_seconds_the_next_episode_is_told() -> None:
    watched = Watched()
    assert len(watched.lines(*[(150, 9)] * 5, *[(150, 0)] * 9, *[(150, 9)] * 5)) == 1
    assert len(watched.lines(*[(150, 0)] * 10, *[(150, 9)] * 5)) == 1
