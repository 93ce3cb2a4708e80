"""What is read of the counters of the rules that drop."""

from __future__ import annotations

import struct
from types import SimpleNamespace

from controller.openflow.codec import MAGIC, NOT_COUNTED, refusals
from controller.openflow.intake.entries import Raw
from controller.openflow.tables.flowtable import Cause


def entry(cause: Cause, packets: int, priority: int = 100) -> Raw:
    """A flow entry without match and actions, as a switch tells it."""
    head = struct.pack("!HBxIIHHHH4xQQQ", 56, 0, 1, 0, priority, 0, 0, 0, MAGIC << 48 | cause, packets, 0)
    return Raw(head + bytes.fromhex("0001000400000000"))


def test_a_rule_whose_frames_a_switch_does_not_count_has_dropped_none() -> None:
    body = [entry(Cause.FORGED_COORDINATOR, NOT_COUNTED), entry(Cause.CONTROL_OFF_PATH, 3)]
    assert refusals(SimpleNamespace(body=body)) == {Cause.CONTROL_OFF_PATH: 3}
