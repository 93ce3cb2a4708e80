"""The sweep of the flow table where the kernel refuses the program that does it: from the bytes of a flow to its end."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest

from agents.priorities.tagger import EndReason, silent_flow
from protocol.flowmark import CoflowMark, FlowMark

SECOND = 1_000_000_000
ENDS = (ip_address("10.0.0.1"), ip_address("10.0.0.6"))
KEY = b"".join(bytes(10) + b"\xff\xff" + end.packed for end in ENDS) + struct.pack("!HHB3x", 5000, 80, 6)


def flow(*, last_s: int, size: int = 3000, mark: int = 0, closed: bool = False) -> bytes:
    """A struct tag_flow that began at one second and sent to bands 1 and 2; promoted three times."""
    return struct.pack(
        "=6Q2I8B", SECOND, last_s * SECOND, size, 0, SECOND, 0, mark, 77, 0b110, 4, 1, 3, closed, 0, 0, 0
    )


def test_a_flow_that_was_silent_for_long_has_ended() -> None:
    found = silent_flow(KEY, flow(last_s=3), 14 * SECOND, 10 * SECOND)
    assert found is not None and found.reason is EndReason.IDLE
    assert (found.source, found.source_port) == (ip_address("10.0.0.1"), 5000)
    assert (found.target, found.target_port) == (ip_address("10.0.0.6"), 80)
    assert (found.size_bytes, found.start_ns, found.duration_ns) == (3000, SECOND, 2 * SECOND)
    assert (found.queues, found.promotions, found.protocol) == ((1, 2), 3, 6)


def test_one_that_sent_since_stays() -> None:
    assert silent_flow(KEY, flow(last_s=5), 14 * SECOND, 10 * SECOND) is None


def test_one_whose_end_was_told_before_is_told_without_bytes() -> None:
    found = silent_flow(KEY, flow(last_s=3, closed=True), 14 * SECOND, 10 * SECOND)
    assert found is not None and found.size_bytes == 0


@pytest.mark.parametrize(
    ("mark", "flow_type"),
    [(0, 3), (FlowMark(9000).encode(), 2), (FlowMark(9000, 20).encode(), 1), (CoflowMark(7).encode(), 4)],
)
def test_its_type_is_that_of_its_mark(mark: int, flow_type: int) -> None:
    found = silent_flow(KEY, flow(last_s=3, mark=mark), 14 * SECOND, 10 * SECOND)
    assert found is not None and found.flow_type == flow_type
