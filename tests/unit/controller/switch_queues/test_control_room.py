"""How much of an operator's queue data may fill."""

from __future__ import annotations

import pytest

from controller.switch_queues.control_room import Room, room


@pytest.mark.parametrize("kind", ["noqueue", "pfifo_fast", "fq_codel", "mq"])
def test_the_kernels_own_queue_is_left_as_it_is(kind: str) -> None:
    assert room(kind, 0, {}) == Room()


def test_data_leave_room_for_some_control_frames_in_a_queue_of_bytes() -> None:
    found = room("tbf", 0x8001, {"limit": 150_000})
    assert 150_000 - 5_000 < found.most_bytes < 150_000 - 20 * 100 and not found.most_packets
    assert "tbf" in found.waits and "150000" in found.waits


def test_and_in_one_of_packets() -> None:
    found = room("pfifo", 1, {"limit": 100})
    assert found.most_packets == 84 and not found.most_bytes


@pytest.mark.parametrize(("kind", "limit"), [("tbf", 2000), ("pfifo", 4)])
def test_data_keep_three_quarters_of_a_short_queue(kind: str, limit: int) -> None:
    found = room(kind, 1, {"limit": limit})
    assert max(found.most_bytes, found.most_packets) == limit * 3 // 4


def test_an_unknown_queue_is_named_and_not_limited() -> None:
    found = room("hfsc", 1, {})
    assert (found.most_bytes, found.most_packets) == (0, 0) and "hfsc" in found.waits
